"""Decisions on external runs, whose processes are started by a launcher."""

from dataclasses import replace
from typing import Any

import pytest

from mlbench_master.controller import actions
from mlbench_master.controller.decisions import decide
from mlbench_master.controller.observed_state import RankView, RunView
from tests.master.controller.worlds import (
    ORDERED,
    RUNNING,
    STOPPING,
    WORLD,
    exited,
    lost,
    with_ranks,
)

DONE = exited(0)


def decide_external(run: RunView) -> list[actions.Action]:
    """Return the actions for an external run, without the pool size."""
    _, *rest = decide(replace(WORLD, external=(replace(run, is_external=True),)))
    return rest


def joined(*ranks: int, of: int, **changes: Any) -> RunView:
    there = tuple(replace(RUNNING, rank=rank) for rank in ranks)
    return replace(with_ranks(), **{"ranks": there, "num_workers": of, **changes})


def test_active_external_ranks_need_no_action() -> None:
    assert decide_external(with_ranks(RUNNING, DONE)) == []
    # The launcher stops the other ranks, not the controller.
    assert decide_external(with_ranks(RUNNING, exited(1))) == []
    assert decide_external(with_ranks(RUNNING, lost())) == []


def test_missing_ranks_are_named_until_they_have_joined() -> None:
    there = [rank for rank in range(16) if rank not in {3, 5, 7, 8, 9}]
    words = "11 of 16 ranks have joined; missing: 3, 5, 7-9"
    assert decide_external(joined(*there, of=16)) == [actions.Wait(7, words)]
    assert decide_external(joined(*there, of=16, waiting=words)) == []
    assert decide_external(joined(*range(16), of=16, waiting=words)) == [actions.Wait(7, "")]
    [wait] = decide_external(joined(*range(0, 1000, 2), of=1000))
    assert isinstance(wait, actions.Wait)
    assert wait.why.endswith("missing: 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, …")


@pytest.mark.parametrize(
    ("rank", "waited", "why"),
    [
        (replace(RUNNING, silent=121.0), 500.0, "no report from its recorder for 121 s"),
        (replace(RUNNING, silent=119.0), 500.0, ""),
        # The controller started 5 s ago.
        (replace(RUNNING, silent=500.0), 5.0, ""),
        # External ranks have no start timeout, and no timeout after a stop.
        (replace(RUNNING, reported=False), 5_000.0, ""),
        (replace(STOPPING, ending=5_000.0, stuck=5_000.0), 5_000.0, ""),
    ],
)
def test_a_silent_external_rank_is_lost(rank: RankView, waited: float, why: str) -> None:
    run = with_ranks(rank, RUNNING, waited=waited)
    found = [action for action in decide_external(run) if isinstance(action, actions.MarkLost)]
    assert found == ([actions.MarkLost(7, 1, 0, rank.seen_at, why)] if why else [])


def test_a_stop_also_reaches_ranks_that_join_later() -> None:
    asked = {"stop_requested": True, "num_workers": 3}
    assert decide_external(with_ranks(STOPPING, RUNNING, **asked)) == [actions.StopRanks(7)]
    assert decide_external(with_ranks(STOPPING, STOPPING, **asked)) == []
    over = with_ranks(exited(-15), exited(-15), **asked)
    assert decide_external(over) == [actions.End(7, "STOPPED")]


def test_incomplete_recording_does_not_fail_an_external_run() -> None:
    short = replace(DONE, failure="9 values could not be written")
    words = "rank 0 on w-0: 9 values could not be written"
    run = with_ranks(short, DONE)
    assert decide_external(run) == [actions.End(7, "FINISHED", words)]
    [end] = decide_external(with_ranks(short, exited(3)))
    assert isinstance(end, actions.End)
    assert end.state == "FAILED"
    assert end.reason.endswith(f"code 3; {words}")
    [end] = decide_external(with_ranks(*[short] * 12, num_workers=12))
    assert isinstance(end, actions.End)
    assert end.reason.endswith("; and 2 more ranks")


def test_a_run_waits_for_missing_ranks_after_the_others_exited() -> None:
    words = "2 of 5 ranks have joined; missing: 2-4"
    run = with_ranks(DONE, DONE, num_workers=5, waited=59.0)
    assert decide_external(run) == [actions.Wait(7, words)]
    never = "ranks 2-4 of 5 never joined"
    assert decide_external(replace(run, waited=60.0)) == [actions.End(7, "FAILED", never)]
    incomplete = replace(run, waited=64.0, recorded=False)
    assert decide_external(incomplete) == []
    assert decide_external(replace(incomplete, waited=66.0)) == [actions.End(7, "FAILED", never)]
    pair = with_ranks(DONE, num_workers=2, waited=60.0)
    assert decide_external(pair) == [actions.End(7, "FAILED", "rank 1 of 2 never joined")]


def test_a_failed_attempt_waits_for_a_restart_if_one_is_allowed() -> None:
    run = with_ranks(exited(3), DONE, waited=1.0)
    failed: list[actions.Action] = [actions.End(7, "FAILED", "rank 0 on w-0 exited with code 3", 0)]
    assert decide_external(run) == failed
    again = replace(run, max_restarts=1)
    assert decide_external(again) == [actions.Wait(7, "attempt 1 failed: waiting for a restart")]
    assert decide_external(replace(again, waited=60.0)) == failed
    assert decide_external(replace(again, attempt=2)) == failed
    assert decide_external(replace(again, stop_requested=True)) == [actions.End(7, "STOPPED")]


def test_external_runs_do_not_affect_the_pool() -> None:
    alone = decide(replace(WORLD, runs=(ORDERED,)))
    beside = replace(WORLD, runs=(ORDERED,), external=(joined(0, of=64, is_external=True),))
    words = "1 of 64 ranks have joined; missing: 1-63"
    assert decide(beside) == [*alone, actions.Wait(7, words)]
    assert decide(replace(beside, runs=()))[0] == actions.Scale(2)


def test_the_state_is_steady_while_all_external_ranks_run() -> None:
    assert replace(WORLD, external=(with_ranks(RUNNING),)).is_steady
    assert not replace(WORLD, external=(with_ranks(RUNNING, DONE),)).is_steady
