"""The page of results: written from archives, with what lacks them."""

import shlex
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from peewee import Database

from benchmarks.results import page
from benchmarks.results.sections import SECTIONS, Published, Section
from benchmarks.results.sets import Bench
from mlbench import archive
from mlbench.archive import ArchiveError, Piece, SeriesName, bundle
from mlbench.benchmarks.options import read
from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.names import TRAIN_SECONDS, VAL_ACCURACY
from mlbench.contract.records import RunSet, Slot, Trial
from mlbench_master.archives.contents import documents
from tests.support.results import make_result
from tests.support.rows import make_ranks, make_run

_ROOT = Path(__file__).parents[2]
BENCH = Bench("pair", "digits --workers 1 --repeats 2")
OTHER = Bench("other", "digits --workers 4")
SECTION = Section(
    "some",
    "Some runs",
    "What is asked.",
    (BENCH, OTHER),
    ("Time to target", VAL_ACCURACY),
    (90.0, 97.0),
    (Published("others", 97.0, 407),),
    "A paper.",
)


def _archives(folder: Path) -> Iterator[Path]:
    """Write the archives of two runs, which reach 92 and 98 % after two and three epochs."""
    for seed in (1, 2):
        target = {"metric": VAL_ACCURACY, "value": 97.0, "lower_is_better": False}
        run = make_run(1, state="FINISHED", seed=seed, target=target, benchmark="digits")
        run.started_at = run.created_at
        run.finished_at = run.created_at + 60
        run.save()
        make_ranks(run, ["w-0"], machine={"cpu_model": "AMD EPYC", "cpus": 2}, exit_code=0)
        times = array("q", (round((run.created_at + 10 * i) * 1e6) for i in (1, 2, 3)))
        series = {VAL_ACCURACY: (50.0, 92.0, 98.0), TRAIN_SECONDS: (seed * 8.0, 16.0, 24.0)}
        pieces = {name: Piece(times, array("d", values)) for name, values in series.items()}
        file = folder / f"{seed}.mlbench"
        parts = [(SeriesName(name, "0"), [piece]) for name, piece in pieces.items()]
        archive.write(file, documents(run, make_result(run.id)), parts)
        yield file


def _place(number: int) -> Slot:
    """Return a place whose run, of the same number, counts."""
    trial = Trial(
        number, number, number, "FINISHED", "", False, deleted=False, counts=True, remark=""
    )
    return Slot(number, f"pair-w1-r{number}", 1, number, False, (trial,))


@pytest.fixture
def archives(tmp_path: Path, database: Database) -> Path:
    """The folder of the archives of a set."""
    files = {}
    for file in _archives(tmp_path):
        with archive.opened(file) as contents:
            files[contents.document(archive.RUN)["run"]["id"]] = file
    places, order = tuple(map(_place, files)), {"args": {"a": "b"}}
    run_set = RunSet("pair", "2026-01-02T03:04:05Z", False, None, order, places, "Ran")
    folder = tmp_path / "archives"
    folder.mkdir()
    bundle.write(BENCH.file(folder), files, run_set)
    return folder


def test_the_page_has_what_archives_tell_and_says_what_lacks(
    archives: Path, tmp_path: Path
) -> None:
    page.write([SECTION], archives, tmp_path)
    text = (tmp_path / "results.md").read_text()
    assert "```\nmlbench bench digits --workers 1 --repeats 2 --name pair\n```" in text
    assert "--name other\n```\n\n*Not measured yet.*" in text
    assert "2 runs with the seeds 1 to 2, " in text
    assert ". The set: 2 of 2 slots have a run that counts; 2 runs." in text
    assert "- AMD EPYC; 2 cores" in text
    assert "| 90 % | 1 worker, a=b | 2/2 | - | - | - | 16.00 | - | - |" in text
    assert "| 97 % | 1 worker, a=b | 2/2 | - | - | - | 24.00 | - | - |" in text
    assert "| 97 % | others | - | - | - | - | 407 | - | - |" in text
    [picture] = (tmp_path / "images" / "results").iterdir()
    assert f"(images/results/{picture.name})" in text
    assert '<rect width="100%" height="100%" fill="#ffffff"/>' in picture.read_text()
    BENCH.file(archives).unlink()
    page.write([SECTION], archives, tmp_path)
    assert (tmp_path / "results.md").read_text() == text, "what lacks archives stays"
    assert picture.exists()
    page.write([replace(SECTION, sets=(OTHER,))], archives, tmp_path)
    assert "--name pair" not in (tmp_path / "results.md").read_text()
    assert not picture.exists()


@pytest.mark.parametrize(
    "bench", [bench for section in SECTIONS for bench in section.sets], ids=lambda bench: bench.name
)
def test_what_is_measured_are_tasks_with_their_options(bench: Bench) -> None:
    task, *words = shlex.split(bench.arguments.partition(" -- ")[0])
    if task.startswith("./"):
        assert (_ROOT / "examples" / "torchrun" / task).is_file()
        return
    given = [value for name, value in pairwise(words) if name in ("--set", "--sweep")]
    for key, values in (option.split("=") for option in given):
        for value in values.split(","):
            if key != "bandwidth":
                read(BENCHMARKS[task].options, {key: value})
    assert task in BENCHMARKS


def test_archives_of_another_set_are_refused(archives: Path, tmp_path: Path) -> None:
    BENCH.file(archives).rename(OTHER.file(archives))
    with pytest.raises(ArchiveError, match="is no export of the set other"):
        page.write([SECTION], archives, tmp_path)


def test_the_published_archives_give_the_published_page(tmp_path: Path) -> None:
    """The section that has its archives beside it, to the byte."""
    docs = _ROOT / "docs"
    [section] = [section for section in SECTIONS if section.key == "exchanges"]
    (tmp_path / "images" / "results").mkdir(parents=True)
    page.write([section], docs / "archives", tmp_path)
    written = _section(tmp_path / "results.md", section.title)
    assert written == _section(docs / "results.md", section.title)
    for picture in (tmp_path / "images" / "results").glob("*.svg"):
        published = docs / "images" / "results" / picture.name
        assert picture.read_text() == published.read_text(), picture.name


def _section(file: Path, title: str) -> str:
    return file.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
