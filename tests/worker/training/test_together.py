"""Ranks wait for the slowest one's work, however long it takes, and notice one that fails."""

from pathlib import Path

import pytest

from tests.worker.ranks import start_ranks
from worker.training.distributed import World
from worker.training.together import prepare_together

# A peer that does not answer within a second is taken for lost; the work of rank 1 takes longer.
_SLOW = """
import time
from datetime import timedelta
from worker.training.distributed import join_world
from worker.training.together import prepare_together
with join_world(timeout=timedelta(seconds=3)) as world:
    def work():
        time.sleep(5 * world.rank)
        return world.rank
    print(prepare_together(world, work))
"""

_FAILING = """
import time
from worker.training.distributed import join_world
from worker.training.together import prepare_together
with join_world() as world:
    def work():
        if world.rank == 1:
            raise LookupError("no such data")
        time.sleep(1000)
    prepare_together(world, work)
"""


def test_alone() -> None:
    assert prepare_together(World(), lambda: 7) == 7


def test_an_error_alone() -> None:
    with pytest.raises(ZeroDivisionError):
        prepare_together(World(), lambda: 1 // 0)


def test_the_slowest_is_waited_for(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, "-c", _SLOW)
    assert [rank.output() for rank in ranks] == [("0\n", ""), ("1\n", "")]


def test_one_that_fails_ends_all(tmp_path: Path) -> None:
    waiting, failing = start_ranks(tmp_path, 2, "-c", _FAILING)
    assert "LookupError: no such data" in failing.output()[1]
    assert "WorldError: rank 0 of 2 lost a peer:" in waiting.output()[1]
    assert [waiting.process.returncode, failing.process.returncode] == [1, 1]
