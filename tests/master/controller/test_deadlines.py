"""Decisions about a run's deadline: who gets how much longer, and what the run is in the end."""

from dataclasses import replace
from typing import Any

import pytest

from master.controller.actions import Assign, Count, End, StopRanks, Wait
from master.controller.views import RankView, RunView
from master.reading.counting import Counted
from tests.master.controller.test_decisions import (
    COMPLETE,
    NOW,
    RUNNING,
    WORLD,
    decide_for,
    exited,
    lost,
    with_ranks,
    workers,
)

REASON = "stopped at its deadline of 60 s"
STOPPING = replace(RUNNING, stopping=True)


def passed(seconds_ago: float, *ranks: RankView, deadline: float = 60.0, **changes: Any) -> RunView:
    """Return a run whose deadline was so many seconds ago."""
    run = with_ranks(*(ranks or (RUNNING, RUNNING)), **changes)
    return replace(run, deadline_seconds=deadline, overdue=seconds_ago)


def stopped(*ranks: RankView, **changes: Any) -> RunView:
    """Return a run that was stopped at its deadline, all of whose samples are counted."""
    return passed(32, *ranks, **{"stop_reason": REASON, "delivery": COMPLETE, **changes})


def end_of(run: RunView) -> End:
    [end] = decide_for(run)
    assert isinstance(end, End)
    return end


@pytest.mark.parametrize(("deadline", "grace"), [(1.0, 30), (60.0, 30), (300.0, 30), (3600.0, 360)])
def test_what_heeds_no_deadline_is_stopped_a_grace_later(deadline: float, grace: float) -> None:
    assert decide_for(passed(-1, deadline=deadline)) == []
    assert decide_for(passed(grace, deadline=deadline)) == []
    reason = f"stopped at its deadline of {deadline:.0f} s"
    late = passed(grace + 1, deadline=deadline)
    assert decide_for(late) == [StopRanks(7, reason)]


def test_also_if_some_ranks_have_ended() -> None:
    assert decide_for(passed(31, exited(0), RUNNING)) == [StopRanks(7, REASON)]


def test_it_is_told_once() -> None:
    assert decide_for(passed(100, STOPPING, STOPPING)) == []


def test_a_long_deadline_is_written_out() -> None:
    [stop] = decide_for(passed(1e9, deadline=1209600.5))
    assert stop == StopRanks(7, "stopped at its deadline of 1209600.5 s")


def test_without_a_deadline_a_run_goes_on() -> None:
    assert decide_for(with_ranks(RUNNING, RUNNING)) == []


@pytest.mark.parametrize("code", [0, 1, 143, -9, -15])
def test_a_stopped_run_is_finished_however_its_ranks_took_it(code: int) -> None:
    assert end_of(stopped(exited(code), exited(0))) == End(7, "FINISHED", REASON)


def test_a_run_that_ended_by_itself_needs_no_reason() -> None:
    run = passed(5, exited(0), exited(0), delivery=COMPLETE)
    assert end_of(run) == End(7, "FINISHED")


def test_its_samples_are_counted_first() -> None:
    assert decide_for(stopped(exited(-15), exited(-15), delivery=None)) == [Count(7)]
    missing = stopped(exited(-15), exited(-15), delivery=Counted(9, 8, 0))
    reason = f"{REASON}; samples are missing: 9 recorded, 8 in Prometheus, 0 kept"
    assert end_of(missing) == End(7, "FAILED", reason)


def test_a_users_stop_makes_it_stopped() -> None:
    assert decide_for(passed(31, stop_requested=True)) == [StopRanks(7)]
    assert end_of(stopped(exited(-15), exited(-15), stop_requested=True)) == End(7, "STOPPED")


def test_a_failed_rank_makes_it_failed() -> None:
    assert decide_for(passed(31, exited(1), RUNNING)) == [StopRanks(7)]
    run = passed(32, exited(1, at=NOW - 20), exited(-15), delivery=COMPLETE)
    assert end_of(run) == End(7, "FAILED", "rank 0 on w-0 exited with code 1", failed_rank=0)


def test_a_lost_rank_makes_it_failed() -> None:
    end = end_of(stopped(exited(-15, at=NOW), lost()))
    reason = f"{REASON}; rank 1 is lost: w-1 was not heard of for 31 s"
    assert end == End(7, "FAILED", reason, failed_rank=1)


def test_no_restart_after_the_deadline() -> None:
    failed = (exited(1), exited(-15))
    assert decide_for(passed(-1, *failed, max_restarts=1)) == [Assign(7, 2, ("w-0", "w-1"))]
    just_now = replace(WORLD, waited=0.0)
    assert decide_for(passed(0, *failed, max_restarts=1), just_now) == [Count(7)]
    assert decide_for(stopped(*failed, max_restarts=1)) == [End(7, "FINISHED", REASON)]


def test_a_restart_that_waits_for_workers_gives_up_at_the_deadline() -> None:
    alone = replace(WORLD, workers=workers(1))
    waiting = (exited(1, at=NOW - 5), exited(1, at=NOW - 5))
    assert decide_for(passed(-1, *waiting, max_restarts=1), alone) == [
        Wait(7, "1 of 2 workers are there")
    ]
    [end] = decide_for(passed(1, *waiting, max_restarts=1, delivery=COMPLETE), alone)
    assert end == End(7, "FAILED", "rank 0 on w-0 exited with code 1", failed_rank=0)
