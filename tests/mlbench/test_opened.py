"""``mlbench.open``: what archives hold, as rows with run, rank, metric, step, epoch and time."""

import math
from array import array
from pathlib import Path

import pytest

import mlbench
from mlbench import archive, names
from mlbench.archive import RUN, ArchiveError, More, Piece, SeriesName
from mlbench.errors import MLBenchError
from mlbench.home import Home
from mlbench.records import Run
from tests.support.results import make_run

_SETS = Path(__file__).parents[2] / "docs" / "archives"


def _numbers(times: list[int], values: list[float]) -> list[Piece]:
    return [Piece(array("q", times), array("d", values))]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "first-7.mlbench"
    late = Piece(array("q", [15]), array("d", [math.nan]), {0: More("diverged")}, kept=True)
    series = [
        (SeriesName("epoch", "0"), _numbers([20], [1.0])),
        (SeriesName("loss", "0"), [*_numbers([5, 10, 20, 25], [4.0, 3.0, 2.0, 1.0]), late]),
        (SeriesName("loss", "1"), _numbers([10], [7.0])),
        (SeriesName("note"), _numbers([10], [8.0])),
        # Not in order, as what came late is kept behind the others.
        (SeriesName("step", "0"), [*_numbers([20], [2.0]), *_numbers([10], [1.0])]),
        (SeriesName("cpu", pod="w-0"), _numbers([10], [9.0])),
    ]
    documents = {RUN: {"run": make_run(id=7, name="first").to_fields()}}
    archive.write(path, documents, [(name, iter(pieces)) for name, pieces in series])
    return path


def test_each_value_has_the_step_and_epoch_of_its_rank(file: Path) -> None:
    opened = mlbench.open(file)
    assert [(run.id, run.name) for run in opened.runs] == [(7, "first")]
    [run] = opened
    assert run.metrics == ("epoch", "loss", "note", "step"), "not what its pod has used"
    rows = opened.table("loss", "note").to_pylist()
    columns = ("rank", "metric", "step", "epoch", "value", "text")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        (0, "loss", None, None, 4.0, None),
        (0, "loss", 1, None, 3.0, None),
        (0, "loss", 1, None, None, "diverged"),
        (0, "loss", 2, 1, 2.0, None),
        (0, "loss", 2, 1, 1.0, None),
        (1, "loss", None, None, 7.0, None),
        (None, "note", None, None, 8.0, None),
    ]
    assert {row["run"] for row in rows} == {"first-7"}
    assert [row["time"].microsecond for row in rows] == [5, 10, 15, 20, 25, 10, 10]
    assert opened.table().num_rows == 10


def test_a_set_is_one_data_frame() -> None:
    opened = mlbench.open(_SETS / "results-cifar10.mlbench")
    frame = opened.to_pandas("val_global_Prec@1")
    last = frame.groupby("run", observed=True)["value"].last()
    assert len(last) == len(opened.runs) > 1
    assert all(last > 70)
    assert (frame["step"] > 0).all()


def test_a_run_that_goes_on_is_asked_for_by_name_or_page(
    stack: Home, going: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_HOME, str(stack.root))
    for source in (going.name, f"{stack.read_connection().url}/runs/{going.id}"):
        [opened] = mlbench.open(source)
        rows = opened.table("train_loss").to_pylist()
        assert opened.run.id == going.id
        assert rows
        assert all(row["rank"] in {0, 1} and row["value"] > 0 <= row["step"] for row in rows)
    with pytest.raises(MLBenchError, match="there is no file and no run 'nobody'"):
        mlbench.open("nobody")


def test_what_is_not_there_is_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(MLBenchError, match="has no metric 'lost'; it has epoch, loss, note, step"):
        mlbench.open(file).table("lost")
    with pytest.raises(MLBenchError, match=r"there is no file .*none\.mlbench"):
        mlbench.open(tmp_path / "none.mlbench")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ArchiveError, match="is no archive"):
        mlbench.open(tmp_path / "text")
