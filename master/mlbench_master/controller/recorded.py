"""The decisions on recorded runs, whose processes somebody else starts: watch, wait, end.

A rank that fails stops no other one: that is for the run's launcher. Its command's exit code says
whether it has failed: what could not be recorded is a sentence more. Pure functions.
"""

from dataclasses import replace

from mlbench.contract.words import spans
from mlbench_master.controller import ending
from mlbench_master.controller.actions import Action, End
from mlbench_master.controller.world import RankView, RunView

# A rank whose recorder was silent for this long, while the master could hear it, is lost.
LOST_SECONDS = 120.0
# Once all that have joined are over: for ranks that have not, or for the next attempt.
LATE_SECONDS = 60.0
# Of the missing ranks, so many spans are named.
_MOST_SPANS = 10


def decide_recorded(run: RunView) -> list[Action]:
    """Decide on the next actions for one run. Carrying them out twice is harmless."""
    if not all(rank.over for rank in run.ranks):
        return ending.find_lost(run, _why_lost) or _watch(run)
    by_codes = (replace(rank, failure="") if _is_done(rank) else rank for rank in run.ranks)
    actions = _end(replace(run, ranks=tuple(by_codes)))
    faulty = [rank for rank in run.ranks if rank.failure and _is_done(rank)]
    missing = [f"{rank.place}: {rank.failure}" for rank in faulty]
    return [
        replace(action, reason=ending.join_reasons(action.reason, *_first(missing)))
        if isinstance(action, End)
        else action
        for action in actions
    ]


def _is_done(rank: RankView) -> bool:
    return rank.exit_code == 0 and not rank.lost


def _first(sentences: list[str]) -> list[str]:
    """Return the first of the sentences, and how many more there are."""
    more = len(sentences) - _MOST_SPANS
    return [*sentences[:_MOST_SPANS], *([f"and {more} more ranks"] if more > 0 else [])]


def _end(run: RunView) -> list[Action]:
    """Wait for ranks or an attempt that may yet come, then have the run counted, then end it."""
    may_begin_anew = bool(ending.failed_ranks(run)) and run.attempt <= run.max_restarts
    awaits = bool(run.missing) or may_begin_anew
    patience = LATE_SECONDS if awaits and not run.stop_requested else 0.0
    if run.waited < patience:
        why = _joined(run) or f"attempt {run.attempt} failed: it may be begun anew"
        return ending.wait_for(run, why)
    return ending.count_or_end(run, _never_joined(run), run.waited - patience)


def _why_lost(rank: RankView, run: RunView) -> str:
    # When the controller starts, recorders get their time to report.
    if min(rank.silent, run.waited) > LOST_SECONDS:
        return f"its recorder was not heard of for {rank.silent:.0f} s"
    return ending.why_gone(rank) or ending.why_unfinished(rank)


def _watch(run: RunView) -> list[Action]:
    """Pass on that the user wants it stopped; else say which ranks have yet to join."""
    if run.stop_requested:
        return [] if all(rank.stopping for rank in run.ranks) else ending.stop_ranks(run)
    return ending.wait_for(run, _joined(run))


def _joined(run: RunView) -> str:
    """Say which ranks have yet to join; empty if none has to."""
    if not run.missing:
        return ""
    there = f"{len(run.ranks)} of {run.num_workers} ranks have joined"
    return f"{there}; missing: {_spans(run.missing)}"


def _never_joined(run: RunView) -> str:
    if not run.missing or run.stop_requested:
        return ""
    ranks = "rank" if len(run.missing) == 1 else "ranks"
    return f"{ranks} {_spans(run.missing)} of {run.num_workers} never joined"


def _spans(numbers: list[int]) -> str:
    found = spans(numbers)
    more = ["…"] if len(found) > _MOST_SPANS else []
    return ", ".join([*found[:_MOST_SPANS], *more])
