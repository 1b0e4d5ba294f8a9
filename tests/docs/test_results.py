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
from benchmarks.results.markdown import markdown_list
from benchmarks.results.sections import SECTIONS, Published, Section
from benchmarks.results.sets import Bench
from benchmarks.results.sweep_tables import sweep_tables
from mlbench import archive
from mlbench.archive import ArchiveError, Piece, SeriesName, bundle
from mlbench.benchmarks.options import read
from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.names import TRAIN_SECONDS, VAL_ACCURACY
from mlbench.contract.records import RunSet, Slot, Trial
from mlbench.contract.sweeps import Crossing
from mlbench_master.archives.contents import documents
from tests.support.known import known
from tests.support.results import make_result, make_sweep
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


def test_a_sweep_has_a_table_of_each_figure_by_its_two_keys() -> None:
    by_title = {table.title: table for table in sweep_tables(make_sweep((1, 2), 4))}
    times = by_title["Time to target by bandwidth and exchange, 2 workers [s]"]
    assert [column.text for column in times.columns] == ["exchange", "5", "20", "100"]
    assert times.rows[0][:2] == ("flat", "22.23 (20.99 to 23.54)")
    rates = by_title["Throughput by bandwidth and exchange, 1 worker [samples/s]"]
    assert len(rates.rows) == 2


def test_a_frontier_has_its_crossings_and_its_profiles_the_best_first() -> None:
    sweep = make_sweep((2,), 3)
    crossing = Crossing("2 workers", "topk", "flat", 34.2, None, 41.0, on_frontier=True, text="")
    frontier = replace(known(sweep.frontier), crossings=(crossing,))
    found = {table.title: table for table in sweep_tables(replace(sweep, frontier=frontier))}
    assert found["Crossings"].rows == (("2 workers", "topk", "flat", "34.20", "41.00", "yes"),)
    first, last = found["Performance profiles"].rows
    assert (first[0], first[1], first[2]) == ("topk", "1.00", "100.0")
    assert (last[0], last[2:]) == ("flat", ("0.0", "33.3", "66.7", "100.0"))


def test_nothing_of_the_users_is_markdown() -> None:
    text = "its <b> is `a|b` *c* [d](e)\n# f _g_ snake_case"
    line = r"- its \<b\> is \`a\|b\` \*c\* \[d\](e) \# f \_g\_ snake_case"
    assert markdown_list([text]) == line
