"""How ranks and runs end, whoever started them: lost ranks, the count, the reason.

Pure functions.
"""

from collections.abc import Callable, Sequence

from mlbench_master.controller.actions import Action, Ask, Count, End, MarkLost, StopRanks, Wait
from mlbench_master.controller.world import RankView, RunView
from mlbench_master.runs.events import describe_exit

# A rank that has exited is lost if nothing more comes from it for this long.
STUCK_SECONDS = 60.0
# A failed or stopped run waits this long for its count: Prometheus may be away.
COUNT_SECONDS = 5.0
# A run of which nothing came for this long hangs, as far as one that is stopped can be known to.
QUIET_SECONDS = 10.0
# So long the ranks of a run that hangs may tell why, before they are stopped.
ANSWER_SECONDS = 5.0
# What was asked before that is no answer.
_LATELY_SECONDS = 20.0


def wait_for(run: RunView, what: str, *, has_room: bool = False) -> list[Action]:
    """Have users see what a run waits for, if they do not yet."""
    return [Wait(run.id, what, has_room)] if what != run.waiting else []


def find_lost(run: RunView, why_lost: Callable[[RankView, RunView], str]) -> list[Action]:
    """Give up the ranks whose end, or whose whole output, will never be known.

    For good: the attempt has failed, even if the worker is heard of again.
    """
    return [
        MarkLost(run.id, run.attempt, rank.rank, rank.seen_at, why)
        for rank in run.ranks
        if not rank.over and (why := why_lost(rank, run))
    ]


def stop_ranks(run: RunView) -> list[Action]:
    """Stop a run's ranks; where some hang, they are asked why before, and heard for a while."""
    has_failed = any(rank.exit_code for rank in run.ranks)
    hangs = has_failed or run.quiet > QUIET_SECONDS
    if not hangs or all(rank.exited for rank in run.ranks):
        return [StopRanks(run.id)]
    if run.asked > _LATELY_SECONDS:
        return [Ask(run.id, "failed" if has_failed else "stopped")]
    waits = 0 <= run.asked < ANSWER_SECONDS and not run.answered
    return [] if waits else [StopRanks(run.id)]


def why_gone(rank: RankView) -> str:
    """Explain why a rank's agent is not the one to report it any more; empty if it is."""
    if rank.replaced:
        return f"another pod has taken the place of {rank.worker}"
    if rank.forgotten:
        return join_reasons(f"the agent of {rank.worker} knows it no more", rank.trouble)
    return ""


def why_unfinished(rank: RankView) -> str:
    """Explain why the output of a rank that has exited is given up; empty if it is not."""
    if rank.exited and rank.stuck > STUCK_SECONDS:
        return f"the rest of what it wrote did not come from {rank.worker} in {STUCK_SECONDS:.0f} s"
    return ""


def count_or_end(run: RunView, shortage: str, waited: float) -> list[Action]:
    """End a run once its samples are counted; after a failure at the latest after a while.

    ``shortage`` says what it lacked; ``waited``: for how many seconds it could have been counted.
    """
    has_failed = bool(shortage or run.stop_requested or failed_ranks(run))
    if (has_failed and waited > COUNT_SECONDS) or (run.delivered and run.delivery is not None):
        return [_end(run, shortage)]
    return [Count(run.id)] if run.delivered else []


def _end(run: RunView, shortage: str) -> End:
    disagreement = run.delivery.disagreement if run.delivery else ""
    if run.stop_requested:
        return End(run.id, "STOPPED", disagreement)
    if failed := failed_ranks(run):
        cause = _first(failed)
        reason = join_reasons(run.stop_reason, _describe(cause), shortage, disagreement)
        # A stated failure needs no more words.
        return End(run.id, "FAILED", reason, None if cause.failure else cause.rank)
    if shortage or disagreement:
        return End(run.id, "FAILED", join_reasons(run.stop_reason, shortage, disagreement))
    return End(run.id, "FINISHED", run.stop_reason)


def join_reasons(*reasons: str) -> str:
    """Return those reasons that are not empty, as one."""
    return "; ".join(filter(None, reasons))


def failed_ranks(run: RunView) -> list[RankView]:
    """Return the ranks that failed. Exit codes do not count where the controller stopped them."""
    return [
        rank
        for rank in run.ranks
        if rank.lost or rank.failure or (rank.exit_code and not run.stop_reason)
    ]


def _first(failed: Sequence[RankView]) -> RankView:
    """Return the rank that failed first: the others failed because of it, or were stopped.

    One with a stated failure goes before: its process ran on after that.
    """
    return min(failed, key=lambda rank: (not rank.failure, rank.exited_at or 0.0, rank.rank))


def _describe(rank: RankView) -> str:
    if rank.failure:
        return f"{rank.place}: {rank.failure}"
    if rank.exit_code:
        return f"{rank.place} {describe_exit(rank.exit_code)}"
    return f"rank {rank.rank} is lost: {rank.lost}"
