"""Decisions, case by case: no clock, no database, no cluster."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from master.controller.actions import Action, Assign, End, Scale, StopRanks, Wait, WriteOff
from master.controller.decisions import decide
from master.controller.views import RankView, RunView, WorkerView, World
from master.pools.base import Shape
from master.reading.counting import Counted

NOW = 1_000_000.0

RUNNING = RankView(
    rank=0,
    worker="w-0",
    pod_uid="uid-0",
    reported=True,
    stopping=False,
    exit_code=None,
    exited_at=None,
    held=0,
    streams_complete=False,
    seen_at=NOW - 0.2,
    silent=0.0,
    forgotten=False,
    replaced=False,
    trouble="",
    lost="",
)
RUN = RunView(
    id=7,
    attempt=1,
    num_workers=2,
    shape=Shape(),
    max_restarts=0,
    stop_requested=False,
    deadline_seconds=None,
    overdue=-math.inf,
    waiting="",
    stop_reason="",
    ranks=(RUNNING, replace(RUNNING, rank=1, worker="w-1", pod_uid="uid-1")),
    delivered=True,
    delivery=None,
)
ORDERED = replace(RUN, attempt=0, ranks=())
COMPLETE = Counted(recorded=10, in_prometheus=8, kept=2)


def workers(count: int, busy: Sequence[int] = (), silent: float = 0.0) -> tuple[WorkerView, ...]:
    return tuple(WorkerView(f"w-{i}", i, i in busy, silent) for i in range(count))


WORLD = World(
    waited=60.0,
    idle=0.0,
    run=None,
    unwanted=(),
    workers=workers(2),
    waits_for="",
    warm=None,
    usual_workers=2,
    start_seconds=120.0,
    idle_seconds=60.0,
)


def decide_for(run: RunView, world: World = WORLD) -> list[Action]:
    """Return what is to be done about the run, the size of the pool left out."""
    first, *rest = decide(replace(world, run=run))
    assert isinstance(first, Scale)
    return rest


def with_ranks(*ranks: RankView, **changes: object) -> RunView:
    numbered = tuple(
        replace(r, rank=i, worker=f"w-{i}", pod_uid=f"uid-{i}") for i, r in enumerate(ranks)
    )
    return replace(RUN, ranks=numbered, **changes)  # type: ignore[arg-type]


def exited(code: int, at: float = NOW - 1) -> RankView:
    return replace(RUNNING, exit_code=code, exited_at=at, streams_complete=True)


def lost(why: str = "w-1 was not heard of for 31 s", at: float = NOW - 31) -> RankView:
    return replace(RUNNING, lost=why, exited_at=at, seen_at=at, silent=NOW - at)


# --- Beginning. ---


def test_begins_once_enough_workers_are_free_and_fresh() -> None:
    assert decide_for(ORDERED) == [Assign(7, 1, ("w-0", "w-1"))]


@pytest.mark.parametrize(
    ("there", "usable"),
    [
        (workers(1), 1),
        (workers(2, busy=[1]), 1),
        (workers(2, silent=10), 0),
        # Heard of before a pause, and not since.
        (workers(2, silent=math.inf), 0),
        # A third one is about to be ended: the pool shrinks to two.
        (workers(3, busy=[0]), 1),
    ],
)
def test_waits_while_workers_are_missing(there: tuple[WorkerView, ...], usable: int) -> None:
    waiting = Wait(7, f"{usable} of 2 workers are there")
    assert decide_for(ORDERED, replace(WORLD, workers=there)) == [waiting]
    told = replace(ORDERED, waiting=waiting.why)
    assert decide_for(told, replace(WORLD, workers=there)) == [], "it is said once"


def test_the_pool_knows_better_what_a_run_waits_for() -> None:
    no_room = "the cluster has room for 1 of 2 workers: 0/1 nodes are available"
    world = replace(WORLD, workers=workers(1), waits_for=no_room)
    assert decide_for(ORDERED, world) == [Wait(7, no_room)]
    late, world = replace(ORDERED, waiting=no_room), replace(world, waited=121.0)
    [end] = decide_for(late, world)
    assert end == End(7, "FAILED", f"only 1 of 2 workers were there within 120 s; {no_room}")
    assert decide_for(late, replace(world, start_seconds=600)) == []


def test_a_worker_that_is_still_free_of_an_ended_run_is_used() -> None:
    world = replace(WORLD, workers=workers(4, busy=[1]), usual_workers=4)
    assert decide_for(ORDERED, world) == [Assign(7, 1, ("w-0", "w-2"))]


def test_a_run_whose_workers_do_not_come_fails() -> None:
    still = Wait(7, "1 of 2 workers are there")
    alone = replace(WORLD, workers=workers(1))
    assert decide_for(ORDERED, replace(alone, waited=120.0)) == [still]
    reason = "only 1 of 2 workers were there within 120 s"
    assert decide_for(ORDERED, replace(alone, waited=121.0)) == [End(7, "FAILED", reason)]


def test_runs_stopped_in_the_queue_end_while_another_goes_on() -> None:
    world = replace(WORLD, unwanted=(8, 9))
    going_on = with_ranks(RUNNING, RUNNING)
    assert decide_for(going_on, world) == [End(8, "STOPPED"), End(9, "STOPPED")]


def test_a_run_stopped_before_it_began_ends() -> None:
    assert decide_for(replace(ORDERED, stop_requested=True)) == [End(7, "STOPPED")]


# --- Going on. ---


def test_a_run_that_goes_well_is_left_alone() -> None:
    assert decide_for(RUN) == []
    assert decide_for(with_ranks(RUNNING, exited(0))) == []


@pytest.mark.parametrize("failed", [exited(1), exited(-9), lost()])
def test_one_failed_rank_stops_all(failed: RankView) -> None:
    assert decide_for(with_ranks(RUNNING, failed)) == [StopRanks(7)]


def test_a_rank_that_failed_but_still_ships_stops_all_too() -> None:
    shipping = replace(exited(1), streams_complete=False)
    assert decide_for(with_ranks(RUNNING, shipping)) == [StopRanks(7)]


def test_the_user_stops_all() -> None:
    assert decide_for(replace(RUN, stop_requested=True)) == [StopRanks(7)]
    # Also where one rank is through.
    one_done = with_ranks(exited(0), RUNNING, stop_requested=True)
    assert decide_for(one_done) == [StopRanks(7)]


def test_ranks_are_told_to_stop_once() -> None:
    stopping = replace(RUNNING, stopping=True)
    assert decide_for(with_ranks(stopping, stopping, stop_requested=True)) == []
    assert decide_for(with_ranks(stopping, replace(exited(1), stopping=True))) == []
    # Interrupted between the two: say it again.
    assert decide_for(with_ranks(stopping, RUNNING, stop_requested=True)) == [StopRanks(7)]


# --- Losing a rank. ---


def test_a_silent_worker_is_lost_after_30_seconds() -> None:
    silent = replace(RUNNING, seen_at=NOW - 31, silent=30.0)
    assert decide_for(with_ranks(RUNNING, silent)) == [], "the master did not hear for a second"
    silent = replace(RUNNING, seen_at=NOW - 31, silent=31.0)
    assert decide_for(with_ranks(RUNNING, silent)) == [
        WriteOff(7, 1, 1, NOW - 31, "w-1 was not heard of for 31 s")
    ]


def test_a_worker_lost_before_it_ever_reported_is_lost() -> None:
    never = replace(RUNNING, reported=False, seen_at=NOW - 31, silent=31.0)
    [action] = decide_for(with_ranks(RUNNING, never))
    assert isinstance(action, WriteOff)


def test_silence_that_the_master_could_not_hear_is_not_held_against_workers() -> None:
    """A laptop that slept, a database that was locked: agents poll again in a moment."""
    assert decide_for(with_ranks(*[replace(RUNNING, seen_at=NOW - 3600, silent=2.0)] * 2)) == []


def test_a_young_attempt_and_a_new_controller_wait_until_workers_are_heard_of() -> None:
    silent = with_ranks(*[replace(RUNNING, seen_at=NOW - 3600, silent=3600.0)] * 2)
    assert decide_for(silent, replace(WORLD, waited=30.0)) == []
    gone = decide_for(silent, replace(WORLD, waited=31.0))
    assert [type(action) for action in gone] == [WriteOff, WriteOff]


def test_a_worker_that_exited_but_cannot_ship_the_rest_is_lost() -> None:
    cut_off = replace(exited(0), streams_complete=False, silent=31.0)
    [action] = decide_for(with_ranks(exited(0), cut_off))
    assert isinstance(action, WriteOff)


def test_a_rank_that_is_through_may_be_silent_and_forgotten() -> None:
    through = replace(exited(0), silent=100.0, forgotten=True)
    assert decide_for(with_ranks(through, through, delivery=COMPLETE)) == [End(7, "FINISHED")]


def test_a_forgotten_rank_is_lost_at_once() -> None:
    forgotten = replace(RUNNING, forgotten=True)
    assert decide_for(with_ranks(RUNNING, forgotten)) == [
        WriteOff(7, 1, 1, RUNNING.seen_at, "the agent of w-1 knows it no more")
    ]


def test_a_rank_whose_pod_was_replaced_is_lost_at_once() -> None:
    replaced = replace(RUNNING, reported=False, replaced=True)
    [lost_it] = decide_for(with_ranks(RUNNING, replaced))
    words = "another pod has taken the place of w-1"
    assert lost_it == WriteOff(7, 1, 1, RUNNING.seen_at, words)


def test_what_the_pool_knows_of_a_lost_worker_is_told() -> None:
    troubled = replace(RUNNING, forgotten=True, trouble="it used too much memory")
    [lost_it] = decide_for(with_ranks(RUNNING, troubled))
    assert isinstance(lost_it, WriteOff)
    assert lost_it.why == "the agent of w-1 knows it no more; it used too much memory"


def test_a_rank_that_its_agent_never_begins_is_lost() -> None:
    waiting = with_ranks(RUNNING, replace(RUNNING, reported=False))
    assert decide_for(waiting, replace(WORLD, waited=120.0)) == []
    [action] = decide_for(waiting, replace(WORLD, waited=121.0))
    assert action == WriteOff(7, 1, 1, RUNNING.seen_at, "w-1 did not begin it within 120 s")


def test_a_lost_rank_stays_lost_though_its_worker_is_back() -> None:
    """Otherwise ranks that were stopped because of it, and exited with 0, would look finished."""
    back = replace(lost(), seen_at=NOW, silent=0.0, exit_code=0, streams_complete=True)
    ended = with_ranks(exited(0), back, delivery=COMPLETE)
    [end] = decide_for(ended)
    assert isinstance(end, End)
    assert end.state == "FAILED"


# --- What an agent says of its rank. ---


def test_a_rank_that_has_failed_though_it_runs_on_stops_the_others() -> None:
    run = with_ranks(replace(RUNNING, failure="its metrics file was replaced"), RUNNING)
    assert decide_for(run) == [StopRanks(7)]


def test_a_rank_that_has_failed_is_the_cause_however_the_others_ended() -> None:
    failed = replace(exited(0), failure="its metrics file was replaced")
    run = with_ranks(exited(-15, at=NOW - 2), failed, delivery=COMPLETE)
    reason = "rank 1 on w-1: its metrics file was replaced"
    assert decide_for(run) == [End(7, "FAILED", reason, 1)]


def test_a_deadline_does_not_hide_that_a_rank_has_failed() -> None:
    failed = replace(exited(-15), failure="its metrics file was replaced")
    run = with_ranks(failed, delivery=COMPLETE, stop_reason="stopped at its deadline of 60 s")
    [end] = decide_for(run)
    assert isinstance(end, End)
    assert (end.state, end.failed_rank) == ("FAILED", 0)
