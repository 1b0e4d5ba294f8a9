"""Decisions of the controller: from the observed state to a list of actions.

Pure functions: no clock, no network, no database.
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mlbench.contract.humanize import spans
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
from mlbench_master.controller.capacity import find_capacity
from mlbench_master.controller.observed_state import ObservedState, RankView, RunView
from mlbench_master.runs.run_events import describe_exit


@dataclass(frozen=True)
class RankLimits:
    """Longest waits for a rank, in seconds. A rank that takes longer is lost."""

    silent: float
    """For a report, while the master is reachable."""
    start: float = math.inf
    """For the start of its process."""
    end: float = math.inf
    """For the end of its process, after the request to stop."""
    ship: float = math.inf
    """For its whole output, after the request to stop, even if more arrives all the time."""


POOL_LIMITS = RankLimits(silent=30.0, start=120.0, end=60.0, ship=600.0)
# A launcher starts and stops external ranks, so they can take any time for that.
EXTERNAL_LIMITS = RankLimits(silent=120.0)
# A rank that has exited is lost if no more of its output arrives for this long.
_STUCK_SECONDS = 60.0
# A worker gets no rank after this long without a report. A thousand workers poll every 7 s.
_FRESH_SECONDS = 10.0
# Once all joined ranks of an external run are over, missing ranks or the next attempt may still
# come for this long.
_LATE_SECONDS = 60.0
# A failed or stopped run waits this long for the rest of its lines to be in its record.
_COUNT_SECONDS = 5.0
# A run that is stopped counts as hung if none of its output arrived for this long.
_QUIET_SECONDS = 10.0
# The ranks of a hung run have this long for their diagnosis before they are stopped.
_ANSWER_SECONDS = 5.0
# An older diagnosis says nothing about the present.
_LATELY_SECONDS = 20.0
# A run is stopped this long after its deadline, because it may evaluate its model until then:
# a share of the deadline, but at least this many seconds.
DEADLINE_GRACE = 0.1
DEADLINE_GRACE_SECONDS = 30.0
# Maximum number of ranks, or ranges of ranks, in a message.
_MAX_LISTED = 10


def decide(observed: ObservedState) -> list[Action]:
    """Return the next actions for the observed state. Every action is idempotent."""
    actions: list[Action] = [size_pool(observed)]
    actions += [End(run_id, "STOPPED") for run_id in observed.stopped_in_queue]
    assigned: set[str] = set()
    for run in (*observed.runs, *observed.external):
        # A lost rank stays lost, even if its worker reports again: the attempt has failed.
        lost = [
            MarkLost(run.id, run.attempt, rank.rank, rank.seen_at, why)
            for rank in run.ranks
            if not rank.over and (why := _why_lost(rank, run))
        ]
        # A launcher decides whether a failed rank stops the others.
        has_failed = not run.is_external and any(_has_failed(rank, run) for rank in run.ranks)
        deadline = run.deadline_seconds or 0.0
        run_actions: Sequence[Action] = lost
        if not run.ranks:
            run_actions = _begin(run, observed, assigned)
        elif all(rank.over for rank in run.ranks):
            run_actions = _conclude(run, observed, assigned)
        elif lost or all(rank.stopping for rank in run.ranks):
            pass
        elif run.stop_requested or has_failed:
            run_actions = _stop(run)
        elif run.overdue > max(DEADLINE_GRACE_SECONDS, DEADLINE_GRACE * deadline):
            run_actions = [StopRanks(run.id, f"stopped at its deadline of {deadline:.15g} s")]
        else:
            run_actions = _wait_for(run, _not_joined(run))
        assigned.update(*(action.workers for action in run_actions if isinstance(action, Assign)))
        actions += run_actions
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


def _begin(run: RunView, observed: ObservedState, assigned: AbstractSet[str]) -> Sequence[Action]:
    """Start the first attempt once there are cores for it, and workers for all ranks."""
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    room = find_capacity(run, observed)
    if room.shares is None:
        return _wait_for(run, room.missing)
    free = _free_workers(run, observed, assigned)
    if len(free) >= run.num_workers:
        return [Assign(run.id, run.attempt + 1, free, room.shares)]
    # With other active runs, it waits until they have ended.
    if run.waited > observed.policy.start_seconds and len(observed.runs) == 1:
        return [End(run.id, "FAILED", _shortage(run, observed, free))]
    return _wait_for(run, _lacking(run, observed, free), has_room=True)


def _conclude(
    run: RunView, observed: ObservedState, assigned: AbstractSet[str]
) -> Sequence[Action]:
    """Once all ranks are over: wait for missing ranks, restart a failed run, or end the run."""
    has_failed = any(_has_failed(rank, run) for rank in run.ranks)
    may_restart = has_failed and run.attempt <= run.max_restarts and run.overdue < 0
    if run.stop_requested or not (may_restart or run.missing):
        return _end(run, "", run.waited)
    if run.is_external:
        reason = _not_joined(run) or f"attempt {run.attempt} failed: waiting for a restart"
        ranks = "rank" if len(run.missing) == 1 else "ranks"
        never_joined = f"{ranks} {_spans(run.missing)} of {run.num_workers} never joined"
        patience, shortage = _LATE_SECONDS, never_joined if run.missing else ""
    else:
        free = _free_workers(run, observed, assigned)
        if len(free) >= run.num_workers:
            return [Assign(run.id, run.attempt + 1, free)]
        reason, patience = _lacking(run, observed, free), observed.policy.start_seconds
        shortage = f"no restart: {_shortage(run, observed, free)}"
    if run.waited < patience:
        return _wait_for(run, reason)
    return _end(run, shortage, run.waited - patience)


def _end(run: RunView, shortage: str, waited: float) -> Sequence[Action]:
    """End a run once its record is complete; after a failure, within ``_COUNT_SECONDS``.

    ``shortage``: missing workers or ranks, empty if none; ``waited``: seconds since the run could
    be counted.
    """
    failed = [rank for rank in run.ranks if _has_failed(rank, run)]
    is_cut_short = bool(shortage or run.stop_requested or failed)
    if not run.recorded and not (is_cut_short and waited > _COUNT_SECONDS):
        return []
    notes = [
        f"{rank.place}: {rank.failure}"
        for rank in run.ranks
        if rank.failure and not _has_failed(rank, run)
    ]
    if len(notes) > _MAX_LISTED:
        notes[_MAX_LISTED:] = [f"and {len(notes) - _MAX_LISTED} more ranks"]
    if run.stop_requested:
        return [End(run.id, "STOPPED", _join(*notes))]
    if not failed:
        reason = _join(run.stop_reason, shortage, *notes)
        return [End(run.id, "FAILED" if shortage else "FINISHED", reason)]
    # The first failure is the cause of the others. A reported failure precedes exits, because its
    # process ran on after it.
    cause = min(failed, key=lambda rank: (not rank.failure, rank.exited_at or 0.0, rank.rank))
    if cause.failure:
        failure = f"{cause.place}: {cause.failure}"
    elif cause.exit_code:
        failure = f"{cause.place} {describe_exit(cause.exit_code)}"
    else:
        failure = f"rank {cause.rank} is lost: {cause.lost}"
    reason = _join(run.stop_reason, failure, shortage, *notes)
    # A reported failure explains itself, without lines of stderr.
    return [End(run.id, "FAILED", reason, None if cause.failure else cause.rank)]


def _stop(run: RunView) -> Sequence[Action]:
    """Stop a run's ranks. If some hang, first ask for a hang diagnosis, and wait a few seconds."""
    has_failed = any(rank.exit_code for rank in run.ranks)
    hangs = has_failed or run.quiet > _QUIET_SECONDS
    if not hangs or all(rank.exited for rank in run.ranks):
        return [StopRanks(run.id)]
    if run.asked > _LATELY_SECONDS:
        return [Ask(run.id, "failed" if has_failed else "stopped")]
    is_waiting = 0 <= run.asked < _ANSWER_SECONDS and not run.answered
    return [] if is_waiting else [StopRanks(run.id)]


def _wait_for(run: RunView, what: str, *, has_room: bool = False) -> Sequence[Action]:
    """Show users why a run waits, unless they see that already."""
    return [Wait(run.id, what, has_room)] if what != run.waiting else []


def _has_failed(rank: RankView, run: RunView) -> bool:
    """Return whether a rank makes its attempt fail.

    Exit codes do not count if the controller stopped the ranks. The command of an external rank
    succeeds by its exit code: what its recorder could not record is only noted.
    """
    has_succeeded = run.is_external and rank.exit_code == 0
    return bool(
        rank.lost
        or (rank.failure and not has_succeeded)
        or (rank.exit_code and not run.stop_reason)
    )


def _why_lost(rank: RankView, run: RunView) -> str:
    """Return why the end or the output of a rank will never be known; empty if it may be."""
    limits, why = EXTERNAL_LIMITS if run.is_external else POOL_LIMITS, ""
    if rank.replaced:
        why = f"another pod has replaced {rank.worker}"
    elif rank.forgotten:
        why = _join(f"the agent of {rank.worker} no longer reports it", rank.trouble)
    # Agents get time to report after the start of an attempt, or of the controller.
    elif min(rank.silent, run.waited) > limits.silent:
        agent = "its recorder" if run.is_external else rank.worker
        why = _join(f"no report from {agent} for {rank.silent:.0f} s", rank.trouble)
    elif not rank.reported and run.waited > limits.start:
        why = _join(f"{rank.worker} did not start it within {limits.start:.0f} s", rank.trouble)
    elif rank.exited and rank.stuck > _STUCK_SECONDS:
        why = f"no more of its output arrived from {rank.worker} for {_STUCK_SECONDS:.0f} s"
    elif rank.stopping and not rank.exited and rank.ending > limits.end:
        why = f"{rank.worker} did not end its process within {limits.end:.0f} s"
    elif rank.stopping and rank.ending > limits.ship:
        why = f"{rank.worker} did not ship all its output within {limits.ship:.0f} s"
    return why


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
        and w.silent < _FRESH_SECONDS
        and holders.get(w.name, run.id) == run.id
    ]
    free.sort(key=lambda w: w.name not in holders)
    return tuple(w.name for w in sorted(free[: run.num_workers], key=lambda w: w.number))


def _lacking(run: RunView, observed: ObservedState, free: Sequence[str]) -> str:
    return observed.waits_for or f"{len(free)} of {run.num_workers} workers are ready"


def _shortage(run: RunView, observed: ObservedState, free: Sequence[str]) -> str:
    within = f"within {observed.policy.start_seconds:.0f} s"
    count = f"only {len(free)} of {run.num_workers} workers were ready {within}"
    return _join(count, observed.waits_for)


def _not_joined(run: RunView) -> str:
    """Return how many ranks have joined, and which are missing; empty if none is."""
    if not run.missing:
        return ""
    joined = f"{len(run.ranks)} of {run.num_workers} ranks have joined"
    return f"{joined}; missing: {_spans(run.missing)}"


def _spans(ranks: list[int]) -> str:
    ranges = spans(ranks)
    ellipsis = ["…"] if len(ranges) > _MAX_LISTED else []
    return ", ".join([*ranges[:_MAX_LISTED], *ellipsis])


def _join(*reasons: str) -> str:
    """Join the reasons that are not empty."""
    return "; ".join(filter(None, reasons))
