"""How ranks and runs end, whoever started them: lost ranks, the count, the reason.

Pure functions.
"""

from collections.abc import Callable

from mlbench_master.controller.actions import (
    Action,
    Ask,
    End,
    MarkLost,
    StopRanks,
    Wait,
)
from mlbench_master.controller.observed_state import RankView, RunView
from mlbench_master.runs.run_events import describe_exit

# A rank that has exited is lost if no more of its output arrives for this long.
STUCK_SECONDS = 60.0
# A failed or stopped run waits this long for its count: Prometheus may be away.
COUNT_SECONDS = 5.0
# A run that is stopped counts as hung if none of its output arrived for this long.
QUIET_SECONDS = 10.0
# The ranks of a hung run have this long for their diagnosis before they are stopped.
ANSWER_SECONDS = 5.0
# An older diagnosis says nothing about the present.
_LATELY_SECONDS = 20.0


def wait_for(run: RunView, what: str, *, has_room: bool = False) -> list[Action]:
    """Show users why a run waits, unless they see that already."""
    return [Wait(run.id, what, has_room)] if what != run.waiting else []


def find_lost(run: RunView, why_lost: Callable[[RankView, RunView], str]) -> list[Action]:
    """Give up the ranks whose end, or whose whole output, will never be known.

    This is permanent: the attempt has failed, even if the worker reports again.
    """
    return [
        MarkLost(run.id, run.attempt, rank.rank, rank.seen_at, why)
        for rank in run.ranks
        if not rank.over and (why := why_lost(rank, run))
    ]


def stop_ranks(run: RunView) -> list[Action]:
    """Stop a run's ranks. If some hang, first ask for a hang diagnosis, and wait a few seconds."""
    has_failed = any(rank.exit_code for rank in run.ranks)
    hangs = has_failed or run.quiet > QUIET_SECONDS
    if not hangs or all(rank.exited for rank in run.ranks):
        return [StopRanks(run.id)]
    if run.asked > _LATELY_SECONDS:
        return [Ask(run.id, "failed" if has_failed else "stopped")]
    is_waiting = 0 <= run.asked < ANSWER_SECONDS and not run.answered
    return [] if is_waiting else [StopRanks(run.id)]


def exit_reason(rank: RankView) -> str:
    """Return why a rank's agent no longer reports it; empty if it does."""
    if rank.replaced:
        return f"another pod has replaced {rank.worker}"
    if rank.forgotten:
        return join_reasons(f"the agent of {rank.worker} no longer reports it", rank.trouble)
    return ""


def incomplete_reason(rank: RankView) -> str:
    """Return why the output of a rank that has exited is given up; empty if it is not."""
    if rank.exited and rank.stuck > STUCK_SECONDS:
        return f"no more of its output arrived from {rank.worker} for {STUCK_SECONDS:.0f} s"
    return ""


def count_or_end(run: RunView, shortage: str, waited: float) -> list[Action]:
    """End a run once its record is complete; after a failure, within ``COUNT_SECONDS``.

    ``shortage``: missing workers or ranks, empty if none; ``waited``: seconds since the run could
    be counted.
    """
    failed = failed_ranks(run)
    is_cut_short = bool(shortage or run.stop_requested or failed)
    if not run.recorded and not (is_cut_short and waited > COUNT_SECONDS):
        return []
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    if failed:
        # The first failure is the cause of the others. A reported failure precedes exits, because
        # its process ran on after it.
        cause = min(failed, key=lambda rank: (not rank.failure, rank.exited_at or 0.0, rank.rank))
        if cause.failure:
            failure = f"{cause.place}: {cause.failure}"
        elif cause.exit_code:
            failure = f"{cause.place} {describe_exit(cause.exit_code)}"
        else:
            failure = f"rank {cause.rank} is lost: {cause.lost}"
        reason = join_reasons(run.stop_reason, failure, shortage)
        # A reported failure explains itself, without lines of stderr.
        return [End(run.id, "FAILED", reason, None if cause.failure else cause.rank)]
    if shortage:
        return [End(run.id, "FAILED", join_reasons(run.stop_reason, shortage))]
    return [End(run.id, "FINISHED", run.stop_reason)]


def join_reasons(*reasons: str) -> str:
    """Join the reasons that are not empty."""
    return "; ".join(filter(None, reasons))


def failed_ranks(run: RunView) -> list[RankView]:
    """Return the failed ranks. Exit codes do not count if the controller stopped the ranks."""
    return [
        rank
        for rank in run.ranks
        if rank.lost or rank.failure or (rank.exit_code and not run.stop_reason)
    ]
