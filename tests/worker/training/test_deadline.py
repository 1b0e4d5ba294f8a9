"""All ranks heed the deadline after the same step; where there is none, it costs nothing."""

import time
from pathlib import Path

import pytest

from mlbench import Tracker, names
from tests.worker.ranks import finish_with_output, start_ranks
from worker.training.deadline import Deadline
from worker.training.distributed import World

# Of two ranks, rank 1 is told of a deadline that comes late, rank 0 of one that has passed already.
_UNEQUAL = """
import os, time
from mlbench import Tracker
from worker.training.deadline import Deadline
from worker.training.distributed import join_world

with Tracker() as tracker, join_world() as world:
    deadline = Deadline(time.time() + 3600 * world.rank, world, tracker)
    print(deadline.has_passed(), deadline.has_passed(), flush=True)
    print(tracker.phase_seconds()["communication"] > 0, flush=True)
os._exit(0)
"""


def make(at: float | None) -> tuple[Deadline, Tracker]:
    tracker = Tracker({})
    environ = {} if at is None else {names.ENV_DEADLINE: repr(at)}
    return Deadline.from_environ(World(), tracker, environ), tracker


def test_none_never_passes_and_takes_no_time() -> None:
    deadline, tracker = make(None)
    assert not deadline.has_passed()
    assert tracker.phase_seconds() == {}


def test_it_passes_once_and_for_good(capsys: pytest.CaptureFixture[str]) -> None:
    early, tracker = make(time.time() + 3600)
    assert not early.has_passed()
    assert set(tracker.phase_seconds()) == {"communication"}
    late, _ = make(time.time() - 1)
    assert late.has_passed()
    assert late.has_passed()
    assert capsys.readouterr().out == "the deadline has passed: training ends\n"


def test_all_ranks_agree_though_their_clocks_do_not(tmp_path: Path) -> None:
    outputs = finish_with_output(start_ranks(tmp_path, 2, "-c", _UNEQUAL))
    said = "the deadline has passed: training ends\nTrue True\nTrue\n"
    assert outputs == [said, said]
