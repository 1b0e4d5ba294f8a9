"""A forgery whose digests are right is found by what it contradicts itself in."""

from array import array
from pathlib import Path
from typing import Any

import pytest

from mlbench import archive
from mlbench.archive import ROWS, RUN, More, Piece, SeriesName, opened
from mlbench.contract import names
from mlbench.evaluation.verification import contradictions

_STARTED_US = 1_700_000_000_000_000


def _found(
    folder: Path, *, slower: float = 1.0, seconds: float = 8.0, attempt: int = 1, restarts: int = 0
) -> Any:
    """Return the contradictions of a run of 10 s, 2 s of it evaluation, with clocks so slow."""
    times = array("q", [_STARTED_US + i * 1_000_000 for i in range(11)])
    training = Piece(times, array("d", [0.8 * i * slower for i in range(11)]))
    evaluation = Piece(times, array("d", [0.2 * i * slower for i in range(11)]))
    text = More("90% Top 1 Validation Accuracy reached in 8.000 seconds, Compute: 6.000 seconds")
    sentence = Piece(times[-1:], array("d", [float("nan")]), {0: text}, kept=True)
    series = [
        (SeriesName(names.TRAIN_SECONDS, "0"), [training]),
        (SeriesName(names.phase_metric("evaluation"), "0"), [evaluation]),
        (SeriesName(names.TASK_RESULT, "0"), [sentence]),
    ]
    result = {"time_to_accuracy": {"training_seconds": seconds}, "clock_faults": []}
    result |= {"goodput": {"ranks": [{"restarts": restarts}]}}
    documents = {RUN: {"result": result}, ROWS: {"run": [{"attempt": attempt}]}}
    archive.write(folder / "a", documents, series)
    with opened(folder / "a") as file:
        return contradictions(file)


def test_an_honest_run_contradicts_nothing(tmp_path: Path) -> None:
    assert _found(tmp_path) == []


def test_clocks_that_were_halved_contradict_the_dates(tmp_path: Path) -> None:
    [clocks, sentence] = _found(tmp_path, slower=0.5, seconds=4.0)
    assert clocks == ("the clocks of rank 0 tell 5.00 s, and the dates of its samples 10.00 s")
    assert sentence == ("the task says that it reached its goal in 8.0 s, its result 4.000 s")


@pytest.mark.parametrize("by", [{"attempt": 2}, {"attempt": 3}, {"restarts": 1}])
def test_a_restarted_run_has_time_that_no_clock_counts(tmp_path: Path, by: dict[str, int]) -> None:
    """Also if torchrun began its processes anew, within one attempt."""
    assert _found(tmp_path, slower=0.5, seconds=8.0, **by) == []
