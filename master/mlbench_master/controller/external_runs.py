"""Decisions on external runs, whose processes somebody else starts: watch, wait, end.

A failed rank stops no other rank: that is up to the run's launcher. The exit code of its command
says whether it has failed. Problems of the recorder are only appended to the reason. Pure
functions.
"""

from dataclasses import replace

from mlbench.contract.humanize import spans
from mlbench_master.controller import termination
from mlbench_master.controller.actions import Action, End
from mlbench_master.controller.observed_state import RankView, RunView

# A rank is lost after this long without a report of its recorder, while the master was reachable.
LOST_SECONDS = 120.0
# Wait for missing ranks, or for the next attempt, after all ranks that have joined are over.
LATE_SECONDS = 60.0
# Maximum number of ranks, or ranges of ranks, in a message.
_MAX_LISTED = 10


def decide_external(run: RunView) -> list[Action]:
    """Return the next actions for one external run. Every action is idempotent."""
    if not all(rank.over for rank in run.ranks):
        if lost := termination.find_lost(run, _why_lost):
            return lost
        if run.stop_requested:
            return [] if all(rank.stopping for rank in run.ranks) else termination.stop_ranks(run)
        return termination.wait_for(run, _joined(run))

    successes = {rank.rank for rank in run.ranks if rank.exit_code == 0 and not rank.lost}
    faulty = [rank for rank in run.ranks if rank.failure and rank.rank in successes]
    notes = [f"{rank.place}: {rank.failure}" for rank in faulty]
    if len(notes) > _MAX_LISTED:
        notes[_MAX_LISTED:] = [f"and {len(notes) - _MAX_LISTED} more ranks"]
    judged = [replace(r, failure="") if r.rank in successes else r for r in run.ranks]
    run = replace(run, ranks=tuple(judged))

    # Missing ranks, or the next attempt, may still come.
    may_restart = bool(termination.failed_ranks(run)) and run.attempt <= run.max_restarts
    is_waiting = (run.missing or may_restart) and not run.stop_requested
    patience = LATE_SECONDS if is_waiting else 0.0
    if run.waited < patience:
        why = _joined(run) or f"attempt {run.attempt} failed: waiting for a restart"
        return termination.wait_for(run, why)
    never_joined = ""
    if run.missing and not run.stop_requested:
        ranks = "rank" if len(run.missing) == 1 else "ranks"
        never_joined = f"{ranks} {_spans(run.missing)} of {run.num_workers} never joined"
    return [
        replace(action, reason=termination.join_reasons(action.reason, *notes))
        if isinstance(action, End)
        else action
        for action in termination.count_or_end(run, never_joined, run.waited - patience)
    ]


def _why_lost(rank: RankView, run: RunView) -> str:
    # Recorders get time to report after the start of the controller.
    if min(rank.silent, run.waited) > LOST_SECONDS:
        return f"no report from its recorder for {rank.silent:.0f} s"
    return termination.exit_reason(rank) or termination.incomplete_reason(rank)


def _joined(run: RunView) -> str:
    """Return how many ranks have joined, and which are missing; empty if none is."""
    if not run.missing:
        return ""
    joined = f"{len(run.ranks)} of {run.num_workers} ranks have joined"
    return f"{joined}; missing: {_spans(run.missing)}"


def _spans(ranks: list[int]) -> str:
    ranges = spans(ranks)
    ellipsis = ["…"] if len(ranges) > _MAX_LISTED else []
    return ", ".join([*ranges[:_MAX_LISTED], *ellipsis])
