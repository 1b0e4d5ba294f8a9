"""Decisions of the controller: from the observed state to a list of actions.

Pure functions: no clock, no network, no database.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.actions import Action, Assign, End, Scale, StopRanks
from mlbench_master.controller.capacity import find_capacity
from mlbench_master.controller.external_runs import decide_external
from mlbench_master.controller.observed_state import ObservedState, RankView, RunView
from mlbench_master.controller.termination import (
    count_or_end,
    exit_reason,
    failed_ranks,
    find_lost,
    incomplete_reason,
    join_reasons,
    stop_ranks,
    wait_for,
)

# A worker is lost after this long without a report, while the master was reachable.
LOST_SECONDS = 30.0
# A worker gets no rank after this long without a report. A thousand workers poll every 7 s.
FRESH_SECONDS = 10.0
# A rank is lost if its agent has not started it after this long.
BEGIN_SECONDS = 120.0
# A rank is lost if its process runs for this long after the request to stop.
END_SECONDS = 60.0
# Give up on a stopping rank after this long, even if its agent still ships output.
STOP_SECONDS = 600.0
# A run is stopped this long after its deadline, because it may evaluate its model until then:
# a share of the deadline, but at least this many seconds.
DEADLINE_GRACE = 0.1
DEADLINE_GRACE_SECONDS = 30.0


def decide(observed: ObservedState) -> list[Action]:
    """Return the next actions for the observed state. Every action is idempotent."""
    actions: list[Action] = [size_pool(observed)]
    actions += [End(run_id, "STOPPED") for run_id in observed.stopped_in_queue]
    assigned: set[str] = set()
    for run in observed.runs:
        run_actions: list[Action] = []
        deadline = run.deadline_seconds or 0.0
        if not run.ranks:
            run_actions = _begin(run, observed, assigned)
        elif all(rank.over for rank in run.ranks):
            run_actions = _conclude(run, observed, assigned)
        elif lost := find_lost(run, _why_lost):
            run_actions = lost
        elif all(rank.stopping for rank in run.ranks):
            run_actions = []
        elif run.stop_requested or failed_ranks(run):
            run_actions = stop_ranks(run)
        elif run.overdue > max(DEADLINE_GRACE_SECONDS, DEADLINE_GRACE * deadline):
            run_actions = [StopRanks(run.id, f"stopped at its deadline of {deadline:.15g} s")]
        assigned.update(*(action.workers for action in run_actions if isinstance(action, Assign)))
        actions += run_actions
    for run in observed.recorded:
        actions += decide_external(run)
    return actions


def size_pool(observed: ObservedState) -> Scale:
    """Return the pool size and shape to aim for.

    While there are runs: enough workers for all that have capacity. After the last run: its
    workers, for ``idle_seconds``. Then: ``min_workers`` of the default shape. Where the pool has
    one worker shape, concurrent runs share it.
    """
    min_workers = observed.policy.min_workers
    if observed.runs:
        # Workers hold the checkpoints of their run, so they stay until it ends, unless lost.
        ranks = [rank for run in observed.runs for rank in run.ranks if not rank.lost]
        # The pool shrinks from the highest number down. A worker's name ends with its number.
        numbers = [rank.worker.rpartition("-")[2] for rank in ranks]
        in_use = max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
        busy = frozenset(rank.pod_uid for rank in ranks)
        fitting = (
            run
            for run in observed.runs
            if run.ranks or find_capacity(run, observed).shares is not None
        )
        required = sum(run.num_workers for run in fitting)
        return Scale(max(min_workers, required, in_use), observed.runs[0].shape, busy)
    if observed.warm is not None and observed.idle < observed.policy.idle_seconds:
        return Scale(max(min_workers, observed.warm.num_workers), observed.warm.shape)
    return Scale(min_workers, WorkerSpec())


def _begin(run: RunView, observed: ObservedState, assigned: AbstractSet[str]) -> list[Action]:
    """Start the first attempt once there are cores for it, and workers for all ranks."""
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    room = find_capacity(run, observed)
    if room.shares is None:
        return wait_for(run, room.missing)
    free = _free_workers(run, observed, assigned)
    if len(free) >= run.num_workers:
        return [Assign(run.id, run.attempt + 1, free, room.shares)]
    # With other active runs, it waits until they have ended.
    if run.waited > observed.policy.start_seconds and len(observed.runs) == 1:
        return [End(run.id, "FAILED", _shortage(run, observed, free))]
    return wait_for(run, _lacking(run, observed, free), has_room=True)


def _conclude(run: RunView, observed: ObservedState, assigned: AbstractSet[str]) -> list[Action]:
    """Once all ranks are over: restart a failed run, or count its samples and end it."""
    shortage = ""
    attempts_left = run.attempt <= run.max_restarts
    if failed_ranks(run) and attempts_left and not run.stop_requested and run.overdue < 0:
        free = _free_workers(run, observed, assigned)
        if len(free) >= run.num_workers:
            return [Assign(run.id, run.attempt + 1, free)]
        if run.waited <= observed.policy.start_seconds:
            return wait_for(run, _lacking(run, observed, free))
        shortage = f"no restart: {_shortage(run, observed, free)}"
    return count_or_end(run, shortage, run.waited)


def _free_workers(
    run: RunView, observed: ObservedState, assigned: AbstractSet[str]
) -> tuple[str, ...]:
    """Return workers that can get a rank of a run, by number; it prefers those it had before.

    Leaves out workers of other runs, ``assigned`` ones, and those that the pool will remove.
    """
    size = size_pool(observed).workers
    holders = {
        rank.worker: other.id for other in observed.runs for rank in other.ranks if not rank.lost
    } | dict.fromkeys(assigned, 0)
    free = [
        w
        for w in observed.workers
        if not w.busy
        and w.number < size
        and w.silent < FRESH_SECONDS
        and holders.get(w.name, run.id) == run.id
    ]
    free.sort(key=lambda w: w.name not in holders)
    return tuple(w.name for w in sorted(free[: run.num_workers], key=lambda w: w.number))


def _lacking(run: RunView, observed: ObservedState, free: Sequence[str]) -> str:
    return observed.waits_for or f"{len(free)} of {run.num_workers} workers are ready"


def _shortage(run: RunView, observed: ObservedState, free: Sequence[str]) -> str:
    within = f"within {observed.policy.start_seconds:.0f} s"
    count = f"only {len(free)} of {run.num_workers} workers were ready {within}"
    return join_reasons(count, observed.waits_for)


def _why_lost(rank: RankView, run: RunView) -> str:
    """Return why a rank is given up; empty if it is not."""
    if gone := exit_reason(rank):
        return gone
    # Agents get time to report after the start of an attempt, or of the controller.
    if min(rank.silent, run.waited) > LOST_SECONDS:
        return join_reasons(f"no report from {rank.worker} for {rank.silent:.0f} s", rank.trouble)
    if not rank.reported and run.waited > BEGIN_SECONDS:
        late = f"{rank.worker} did not start it within {BEGIN_SECONDS:.0f} s"
        return join_reasons(late, rank.trouble)
    if unfinished := incomplete_reason(rank):
        return unfinished
    if rank.stopping and not rank.exited and rank.ending > END_SECONDS:
        return f"{rank.worker} did not end its process within {END_SECONDS:.0f} s"
    is_late = rank.stopping and rank.ending > STOP_SECONDS
    return (
        f"{rank.worker} did not ship all its output within {STOP_SECONDS:.0f} s" if is_late else ""
    )
