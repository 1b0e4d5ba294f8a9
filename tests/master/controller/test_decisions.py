"""Each decision of the controller, without clock, database or cluster."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.actions import (
    Action,
    Ask,
    Assign,
    End,
    MarkLost,
    Scale,
    StopRanks,
    Wait,
)
from mlbench_master.controller.decisions import decide, size_pool
from mlbench_master.controller.observed_state import (
    ObservedState,
    RankView,
    RunView,
    WarmPool,
    WorkerView,
)
from tests.master.controller.worlds import (
    ALONE,
    NOW,
    ORDERED,
    POLICY,
    RUN,
    RUNNING,
    STOPPING,
    WORLD,
    exited,
    lost,
    with_ranks,
    workers,
)

DEADLINE = "stopped at its deadline of 60 s"
BOTH = Assign(7, 1, ("w-0", "w-1"), ((), ()))
ONE_THERE = Wait(7, "1 of 2 workers are ready", has_room=True)
SHORTAGE = "only 1 of 2 workers were ready within 120 s"


def decide_for(run: RunView, observed: ObservedState = WORLD, waited: float = 60.0) -> list[Action]:
    """Return the actions for the only run, without the pool size."""
    first, *rest = decide(replace(observed, runs=(replace(run, waited=waited),)))
    assert isinstance(first, Scale)
    return rest


def end_of(run: RunView, observed: ObservedState = WORLD) -> End:
    [end] = decide_for(run, observed)
    assert isinstance(end, End)
    return end


# --- Start ---


@pytest.mark.parametrize(
    ("there", "usable"),
    [
        (workers(1), 1),
        (workers(2, busy=[1]), 1),
        (workers(2, silent=10), 0),
        # Not heard from since a pause of the master.
        (workers(2, silent=math.inf), 0),
        # The pool shrinks to two workers, so the third one will be removed.
        (workers(3, busy=[0]), 1),
    ],
)
def test_a_run_waits_for_idle_workers(there: tuple[WorkerView, ...], usable: int) -> None:
    assert decide_for(ORDERED) == [BOTH]
    waiting = Wait(7, f"{usable} of 2 workers are ready", has_room=True)
    assert decide_for(ORDERED, replace(WORLD, workers=there)) == [waiting]
    told = replace(ORDERED, waiting=waiting.why)
    assert decide_for(told, replace(WORLD, workers=there)) == [], "the reason is not repeated"


def test_a_run_without_workers_fails_after_the_start_timeout() -> None:
    no_room = "the cluster has room for 1 of 2 workers: 0/1 nodes are available"
    observed = replace(ALONE, waits_for=no_room)
    assert decide_for(ORDERED, observed) == [Wait(7, no_room, has_room=True)]
    assert decide_for(ORDERED, observed, 121.0) == [End(7, "FAILED", f"{SHORTAGE}; {no_room}")]
    assert decide_for(ORDERED, ALONE, 120.0) == [ONE_THERE]
    assert decide_for(ORDERED, ALONE, 121.0) == [End(7, "FAILED", SHORTAGE)]
    patient = replace(ALONE, policy=replace(POLICY, start_seconds=600))
    assert decide_for(ORDERED, patient, 121.0) == [ONE_THERE]


def test_queued_runs_can_be_stopped() -> None:
    observed = replace(WORLD, stopped_in_queue=(8, 9))
    assert decide_for(RUN, observed) == [End(8, "STOPPED"), End(9, "STOPPED")]
    assert decide_for(replace(ORDERED, stop_requested=True)) == [End(7, "STOPPED")]


# --- Active runs ---


EXITED = [exited(1), exited(-9), replace(exited(1), streams_complete=False)]


@pytest.mark.parametrize("failed", [*EXITED, lost(), replace(RUNNING, failure="cut short")])
def test_one_failed_rank_stops_all_ranks(failed: RankView) -> None:
    assert decide_for(with_ranks(RUNNING, failed, asked=6.0)) == [StopRanks(7)]


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        *((with_ranks(RUNNING, one), "failed") for one in EXITED),
        (replace(RUN, stop_requested=True, quiet=11.0), "stopped"),
        (replace(RUN, stop_requested=True, quiet=11.0, asked=21.0, answered=True), "stopped"),
    ],
)
def test_hung_ranks_are_diagnosed_before_they_are_stopped(run: RunView, reason: Any) -> None:
    assert decide_for(run) == [Ask(7, reason)]
    assert decide_for(replace(run, asked=4.0, answered=False)) == []
    for told in (replace(run, asked=4.0, answered=True), replace(run, asked=6.0)):
        assert decide_for(told) == [StopRanks(7)]


@pytest.mark.parametrize(
    "run",
    [
        replace(RUN, stop_requested=True, quiet=9.0),
        with_ranks(exited(1), replace(exited(0), streams_complete=False)),
        # Asked in the future: the clock was set back.
        replace(RUN, stop_requested=True, quiet=11.0, asked=-3600.0),
    ],
)
def test_progressing_or_exited_ranks_are_stopped_without_a_diagnosis(run: RunView) -> None:
    assert decide_for(run) == [StopRanks(7)]


def test_a_user_stop_stops_all_ranks_once() -> None:
    assert decide_for(with_ranks(exited(0), RUNNING, stop_requested=True)) == [StopRanks(7)]
    assert decide_for(with_ranks(STOPPING, STOPPING, stop_requested=True)) == []
    # The controller was killed before it could stop the second rank.
    assert decide_for(with_ranks(STOPPING, RUNNING, stop_requested=True)) == [StopRanks(7)]


# --- Lost ranks ---

SENDING = replace(exited(0), streams_complete=False)
LATE = replace(SENDING, stopping=True)


@pytest.mark.parametrize(
    ("rank", "why"),
    [
        # Time in which the master was unreachable does not count.
        (replace(RUNNING, seen_at=NOW - 3600, silent=30.0), ""),
        (replace(RUNNING, silent=31.0), "no report from w-1 for 31 s"),
        (replace(SENDING, silent=31.0), "no report from w-1 for 31 s"),
        (replace(RUNNING, forgotten=True, trouble="x"), "the agent of w-1 no longer reports it; x"),
        (replace(RUNNING, replaced=True), "another pod has replaced w-1"),
        (replace(STOPPING, ending=60.0), ""),
        (replace(STOPPING, ending=61.0), "w-1 did not end its process within 60 s"),
        (replace(SENDING, stuck=61.0), "no more of its output arrived from w-1 for 60 s"),
        (replace(LATE, ending=601.0), "w-1 did not ship all its output within 600 s"),
    ],
)
def test_a_rank_is_lost(rank: RankView, why: str) -> None:
    run = with_ranks(STOPPING, rank, stop_requested=True)
    marked = [action for action in decide_for(run) if isinstance(action, MarkLost)]
    assert marked == ([MarkLost(7, 1, 1, rank.seen_at, why)] if why else [])


def test_a_rank_that_never_starts_is_lost() -> None:
    waiting = with_ranks(RUNNING, replace(RUNNING, reported=False))
    assert decide_for(waiting, WORLD, 120.0) == []
    [action] = decide_for(waiting, WORLD, 121.0)
    assert action == MarkLost(7, 1, 1, RUNNING.seen_at, "w-1 did not start it within 120 s")


def test_silence_counts_only_from_the_start_of_attempt_and_controller() -> None:
    silent = with_ranks(*[replace(RUNNING, silent=3600.0)] * 2)
    assert decide_for(silent, WORLD, 30.0) == []
    gone = decide_for(silent, WORLD, 31.0)
    assert [type(action) for action in gone] == [MarkLost, MarkLost]


# --- Complete records ---


def test_only_a_successful_run_waits_long_for_its_record() -> None:
    failed = with_ranks(exited(-15), exited(1, at=NOW - 9), recorded=False)
    assert decide_for(failed, waited=4.9) == []
    reason = "rank 1 on w-1 exited with code 1"
    assert decide_for(failed, waited=5.1) == [End(7, "FAILED", reason, 1)]
    assert decide_for(replace(failed, stop_requested=True), waited=5.1) == [End(7, "STOPPED")]
    assert decide_for(replace(failed, recorded=True), waited=0.0) == [End(7, "FAILED", reason, 1)]
    good = with_ranks(exited(0), exited(0), recorded=False)
    assert decide_for(good, waited=9999.0) == []
    assert decide_for(replace(good, recorded=True), waited=0.0) == [End(7, "FINISHED")]


# --- Cause of a failure ---


@pytest.mark.parametrize(
    ("ranks", "cause"),
    [
        # The first failure counts; the other ranks failed because of it or were stopped.
        ((exited(-15, NOW - 2), exited(1, NOW - 5), exited(0, NOW - 9)), 1),
        ((exited(2), exited(1)), 0),
        ((exited(1, NOW - 20), lost(NOW - 31)), 1),
        ((exited(1, NOW - 40), lost(NOW - 31)), 0),
        # The rank failed first, although its process exited later.
        ((exited(-15, NOW - 2), replace(exited(0), failure="its metrics file was replaced")), 1),
    ],
)
def test_the_reason_names_the_first_failure(ranks: Sequence[RankView], cause: int) -> None:
    assert end_of(with_ranks(*ranks)).reason.startswith(f"rank {cause} ")


# --- Restarts ---

FAILED = with_ranks(exited(1), exited(-15), max_restarts=1)


def test_a_failed_attempt_is_restarted() -> None:
    assert decide_for(FAILED) == [Assign(7, 2, ("w-0", "w-1"))]
    in_time = replace(FAILED, deadline_seconds=60.0, overdue=-1.0)
    assert decide_for(in_time) == [Assign(7, 2, ("w-0", "w-1"))]
    one_left = with_ranks(replace(exited(1), stopping=True), STOPPING, max_restarts=1)
    assert decide_for(one_left) == [], "a restart waits for the exit of all ranks"


@pytest.mark.parametrize(
    "run",
    [
        replace(FAILED, max_restarts=0),
        replace(FAILED, attempt=2),
        replace(FAILED, stop_requested=True),
        replace(FAILED, deadline_seconds=60.0, overdue=0.0),
        with_ranks(exited(0), exited(0), max_restarts=1),
    ],
)
def test_no_restart(run: RunView) -> None:
    """Restarts end at the limit, after a stop, at the deadline and after success."""
    [action] = decide_for(run, waited=0.0)
    assert isinstance(action, End)


def test_a_restart_waits_for_workers_until_a_timeout() -> None:
    assert decide_for(FAILED, ALONE, 119.0) == [replace(ONE_THERE, has_room=False)]
    assert decide_for(replace(FAILED, stop_requested=True), ALONE) == [End(7, "STOPPED")]
    past = replace(FAILED, deadline_seconds=60.0, overdue=1.0)
    assert decide_for(past, ALONE) == [End(7, "FAILED", "rank 0 on w-0 exited with code 1", 0)]
    reason = f"rank 0 on w-0 exited with code 1; no restart: {SHORTAGE}"
    assert decide_for(FAILED, ALONE, 120.0) == [End(7, "FAILED", reason, 0)]


# --- Deadlines ---


def past(seconds: float, *ranks: RankView, deadline: float = 60.0, **changes: Any) -> RunView:
    """Return a run whose deadline passed this many seconds ago."""
    run = with_ranks(*(ranks or (RUNNING, RUNNING)), **changes)
    return replace(run, deadline_seconds=deadline, overdue=seconds)


def stopped(*ranks: RankView, **changes: Any) -> RunView:
    """Return a run that the controller stopped at its deadline."""
    return past(32, *ranks, **{"stop_reason": DEADLINE, **changes})


@pytest.mark.parametrize(
    ("deadline", "grace", "text"), [(1.0, 30, "1"), (3600.0, 360, "3600"), (900.5, 90.05, "900.5")]
)
def test_ranks_that_miss_the_deadline_are_stopped(deadline: float, grace: float, text: str) -> None:
    for ranks in ((RUNNING, RUNNING), (exited(0), RUNNING)):
        assert decide_for(past(-1, *ranks, deadline=deadline)) == []
        assert decide_for(past(grace, *ranks, deadline=deadline)) == []
        late = past(grace + 1, *ranks, deadline=deadline)
        assert decide_for(late) == [StopRanks(7, f"stopped at its deadline of {text} s")]
    assert decide_for(past(grace + 1, STOPPING, STOPPING, deadline=deadline)) == []
    # A user's stop and a failed rank take precedence over the deadline.
    failed = past(999999, exited(1), RUNNING, asked=6.0)
    for run in (past(999999, stop_requested=True), failed):
        assert decide_for(run) == [StopRanks(7)]


# --- Ends ---


OVER = replace(exited(0), silent=100.0, forgotten=True)
BACK = replace(lost(), seen_at=NOW, silent=0.0, exit_code=0, streams_complete=True)
SEVERAL = replace(exited(3), has_several=True)
NO = "rank 3: RuntimeError: no (train.py:12)"
KILLED = "rank 0 on w-0 was killed by signal 9 (SIGKILL)"
CUT_SHORT = replace(exited(-15), failure="its file was replaced")
SILENT = "rank 1 is lost: no report from w-1 for 31 s"


@pytest.mark.parametrize(
    ("run", "end"),
    [
        # An exited rank may be silent.
        (with_ranks(OVER, OVER), End(7, "FINISHED")),
        # A lost rank that reports exit code 0 later does not make its run FINISHED.
        (with_ranks(OVER, BACK), End(7, "FAILED", SILENT, 1)),
        # A worker with several ranks has the name of its pod.
        (with_ranks(OVER, SEVERAL), End(7, "FAILED", "w-1 exited with code 3", 1)),
        (with_ranks(OVER, replace(SEVERAL, failure=NO)), End(7, "FAILED", f"w-1: {NO}")),
        # Stopped by its user: exit codes do not matter.
        *(
            (with_ranks(*ranks, stop_requested=True), End(7, "STOPPED"))
            for ranks in ([exited(-15)] * 2, [exited(0)] * 2, [exited(1), lost()])
        ),
        # Past its deadline, but not stopped by the controller.
        (past(5, exited(0), exited(0)), End(7, "FINISHED")),
        (past(32, exited(-9, NOW - 20), exited(-15)), End(7, "FAILED", KILLED, 0)),
        # Stopped at its deadline: exit codes do not matter.
        *(
            (stopped(exited(code), exited(0), max_restarts=restarts), End(7, "FINISHED", DEADLINE))
            for code in (0, 1, -15)
            for restarts in (0, 1)
        ),
        (stopped(exited(-15), exited(-15), stop_requested=True), End(7, "STOPPED")),
        (stopped(exited(-15, NOW), lost()), End(7, "FAILED", f"{DEADLINE}; {SILENT}", 1)),
        (stopped(CUT_SHORT), End(7, "FAILED", f"{DEADLINE}; rank 0 on w-0: its file was replaced")),
    ],
)
def test_the_end_of_a_run(run: RunView, end: End) -> None:
    assert end_of(run) == end


# --- Pool size ---

SMALL = WorkerSpec(num_cpus=0.5)


def test_the_pool_grows_stays_warm_and_shrinks() -> None:
    for wanted, size in ((1, 2), (5, 5)):
        run = replace(ORDERED, num_workers=wanted, shape=SMALL)
        assert size_pool(replace(WORLD, runs=(run,))) == Scale(size, SMALL)
    ended = replace(WORLD, warm=WarmPool(5, SMALL), idle=59.0)
    assert decide(ended) == [Scale(5, SMALL)]
    assert decide(replace(ended, idle=60.0)) == [Scale(2)]
    assert size_pool(replace(ended, warm=WarmPool(1, SMALL))) == Scale(2, SMALL)
    # Workers of a run that never started may be pending, and would compete for resources.
    assert size_pool(replace(ended, warm=None)) == Scale(2)


def test_workers_stay_until_the_run_ends_unless_lost() -> None:
    """The next attempt needs the checkpoints on the workers, also if ``min_workers`` is lowered."""
    run = with_ranks(RUNNING, exited(0), lost())
    assert size_pool(replace(WORLD, runs=(run,))).busy == {"uid-0", "uid-1"}
    ranks = (RUNNING, replace(exited(1), worker="w-3", pod_uid="uid-3"))
    policy = replace(POLICY, min_workers=1)
    observed = replace(WORLD, runs=(replace(RUN, ranks=ranks),), policy=policy)
    assert size_pool(observed) == Scale(4, WorkerSpec(), frozenset({"uid-0", "uid-3"}))
