"""The results page: headline figures and charts from archives."""

import shlex
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from peewee import Database

from benchmarks.results import page
from benchmarks.results.sets import SETS, Bench
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
BENCH = Bench("pair", "digits --workers 1 --repeats 2", "a pair", VAL_ACCURACY)


def _archives(folder: Path) -> Iterator[Path]:
    """Write the archives of two runs that reach 92 and 98 % after two and three epochs."""
    for seed in (1, 2):
        target = {"metric": VAL_ACCURACY, "value": 97.0, "lower_is_better": False}
        run = make_run(1, state="FINISHED", seed=seed, target=target, benchmark="digits")
        run.started_at = run.created_at
        run.finished_at = run.created_at + 60
        run.save()
        make_ranks(run, ["w-0"], machine={"cpu_model": "AMD EPYC", "cpus": 2}, exit_code=0)
        times = array("q", (round((run.created_at + 10 * i) * 1e6) for i in (1, 2, 3)))
        series = {VAL_ACCURACY: (50.0, 92.0, 98.0), TRAIN_SECONDS: (8.0, 16.0, 16.0 + 8 * seed)}
        pieces = {name: Piece(times, array("d", values)) for name, values in series.items()}
        file = folder / f"{seed}.mlbench"
        parts = [(SeriesName(name, "0"), [piece]) for name, piece in pieces.items()]
        archive.write(file, documents(run, make_result(run.id)), parts)
        yield file


def _place(number: int) -> Slot:
    """Return a slot with a run of the same number that counts."""
    trial = Trial(
        number, number, number, "FINISHED", "", False, deleted=False, counts=True, remark=""
    )
    return Slot(number, f"pair-w1-r{number}", 1, number, False, (trial,))


@pytest.fixture
def archives(tmp_path: Path, database: Database) -> Path:
    """Folder with the archives of a benchmark set."""
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


def test_the_page_has_figures_a_chart_and_the_archive(archives: Path, tmp_path: Path) -> None:
    old = tmp_path / "images" / "results" / "old.svg"
    old.parent.mkdir(parents=True)
    old.touch()
    page.write([BENCH], archives, tmp_path)
    text = (tmp_path / "results.md").read_text()
    row = "| [a pair](archives/pair.mlbench) | 1 worker | 2/2 | 28.00 s"
    assert row in text, "mean of 24 and 32 s"
    [picture] = old.parent.iterdir()
    assert f"(images/results/{picture.name})" in text
    assert '<rect width="100%" height="100%" fill="#ffffff"/>' in picture.read_text()


@pytest.mark.parametrize("bench", SETS, ids=lambda bench: bench.name)
def test_measured_sets_name_existing_benchmarks_and_options(bench: Bench) -> None:
    task, *words = shlex.split(bench.arguments)
    settings = [value for name, value in pairwise(words) if name in ("--set", "--sweep")]
    for key, values in (option.split("=") for option in settings):
        for value in values.split(","):
            if key != "bandwidth":
                read(BENCHMARKS[task].options, {key: value})
    assert task in BENCHMARKS


def test_archives_of_another_set_are_refused(archives: Path, tmp_path: Path) -> None:
    other = replace(BENCH, name="other")
    BENCH.file(archives).rename(other.file(archives))
    with pytest.raises(ArchiveError, match="not an export of the set other"):
        page.write([other], archives, tmp_path)


def test_the_published_page_follows_from_the_published_archives(tmp_path: Path) -> None:
    docs = _ROOT / "docs"
    page.write(SETS, docs / "archives", tmp_path)
    text = (docs / "results.md").read_text()
    assert (tmp_path / "results.md").read_text() == text
    assert len(text.split()) <= 400
    folder = Path("images/results")
    written = {picture.name: picture.read_text() for picture in (tmp_path / folder).iterdir()}
    assert written == {picture.name: picture.read_text() for picture in (docs / folder).iterdir()}
