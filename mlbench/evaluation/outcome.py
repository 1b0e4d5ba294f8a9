"""The outcome of a run that has ended, from its rows, series and hang diagnoses. Pure.

The state tells how the processes ended; the outcome tells what the run achieved.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any

from mlbench.contract import names
from mlbench.contract.autopsy import Autopsy
from mlbench.contract.names import ACTIVE_STATES, OutcomeKind
from mlbench.contract.records import Goal, Outcome
from mlbench.contract.results import TimeToAccuracy
from mlbench.evaluation.goodput import Useless
from mlbench.evaluation.inputs import Columns, RunRow, by_rank, finite_by_rank

# Diagnoses of failed ranks explain a crash, not a hang.
_HANG_REASONS = ("asked", "stalled", "deadline", "stopped")
# In these cases ranks make progress, or have exited.
_NOT_HUNG = ("going", "gone")
_LONGEST_TEXT = 300
_RANK = re.compile(r"rank (\d+)\b")


@dataclass(frozen=True)
class NotFiniteLoss:
    """The first of the last values of a metric that are all NaN or infinite."""

    metric: str
    since: float
    """Unix seconds."""
    step: int | None
    """None if the step was not recorded."""


@dataclass(frozen=True)
class Hang:
    """A hang that lasted until the end of the run."""

    since: float
    """Unix seconds of the last step of any rank; of the diagnosis if no rank reported a step."""
    steps: int
    """Largest number of steps of any rank."""
    sentence: str
    """Verdict of the diagnosis."""


def not_finite_loss(run: RunRow, target: Goal | None, series: Columns) -> NotFiniteLoss | None:
    """Return since when a loss or the target's metric is not finite; None if all are finite.

    A later finite value of the same series makes the loss count as finite again.
    """
    found = []
    if loss := run.not_finite:
        found.append(NotFiniteLoss(loss["metric"], loss["since"], loss["step"]))
    for column in by_rank(series, target.metric).values() if target else ():
        bad = len(column.values)
        while bad and not isfinite(column.values[bad - 1]):
            bad -= 1
        if target and bad < len(column.values):
            found.append(NotFiniteLoss(target.metric, column.times_us[bad] / 1e6, None))
    return min(found, key=lambda loss: loss.since, default=None)


def hang_of(run: RunRow, series: Columns, autopsies: Sequence[Autopsy]) -> Hang | None:
    """Return the hang that the run is in, or was in when it was ended; None without one."""
    last = next((one for one in reversed(autopsies) if one.attempt == run.attempt), None)
    if last is None or last.reason not in _HANG_REASONS or last.verdict.kind in _NOT_HUNG:
        return None
    if run.state == "FINISHED" and not run.reason:
        return None  # All ranks exited by themselves.
    evidence = [one for one in last.evidence if one.quiet_seconds is not None]
    is_stalled = last.reason == "stalled"
    if not is_stalled and (not evidence or last.verdict.certainty == "none"):
        return None  # The run may only be slow.
    asked_at = datetime.fromisoformat(last.asked_at).timestamp()
    if any(at > asked_at for at in _step_times(series)):
        return None
    stood = [one.at - one.quiet_seconds for one in evidence if one.quiet_seconds is not None]
    # What agents tell of the steps may be a second old.
    told = [float(one.steps) for one in last.evidence]
    told += [max(column.values) for column in finite_by_rank(series, names.STEP).values()]
    steps = round(max(told, default=0.0))
    return Hang(max(stood, default=asked_at), steps, last.verdict.sentence)


def useless_from(loss: NotFiniteLoss | None, hang: Hang | None) -> Useless | None:
    """Return from when on a run could not succeed, and the bucket of that time; None if it could.

    The earlier one counts where a run diverged and hung.
    """
    begun: list[Useless] = []
    if loss:
        begun.append((round(loss.since * 1e6), "diverged"))
    if hang:
        begun.append((round(hang.since * 1e6), "hung"))
    return min(begun, default=None)


def outcome_of(
    run: RunRow,
    target: Goal | None,
    reached: TimeToAccuracy | None,
    loss: NotFiniteLoss | None,
    hang: Hang | None,
    *,
    is_reached: bool,
) -> Outcome | None:
    """Return the outcome of a run; None while the run is active.

    ``is_reached`` tells that a value reached the target, also where its time is unknown.
    """
    if run.state in ACTIVE_STATES:
        return None
    outcome = _outcome("completed", "completed without a target")
    if loss:
        seconds = loss.since - (run.started_at or loss.since)
        since = f"{seconds:.1f} s" if loss.step is None else f"step {loss.step:,}"
        text = f"NaN since {since} ({loss.metric})"
        outcome = _outcome("nan", text, since=loss.since, step=loss.step)
    elif hang:
        text = f"hung after {hang.steps:,} steps: {hang.sentence}"
        outcome = _outcome("hung", text[:_LONGEST_TEXT], since=hang.since, step=hang.steps)
    elif run.state == "FAILED":
        outcome = _crash(run.reason)
    elif is_reached:
        outcome = _reached(run, reached)
    elif run.state == "STOPPED":
        outcome = _outcome("stopped", "stopped")
    elif target:
        outcome = _outcome("not_reached", "target not reached")
    return outcome


def _reached(run: RunRow, reached: TimeToAccuracy | None) -> Outcome:
    if reached is None:
        return _outcome("reached", "target reached, at an unknown time")
    seconds, clock = reached.wall_seconds, "since the start"
    if reached.training_seconds is not None:
        seconds, clock = reached.training_seconds, "of training"
    at = (run.started_at or 0.0) + reached.wall_seconds
    return _outcome("reached", f"target reached in {seconds:.4g} s {clock}", since=at)


def _crash(reason: str) -> Outcome:
    """Return a crash with the rank and the error that a reason names."""
    lines = reason.strip().splitlines() or ["unknown error"]
    first, last = lines[0].strip().rstrip(":"), lines[-1].strip()
    error = first if len(lines) == 1 else f"{first}: {last}"
    rank = _RANK.search(first)
    text = f"crashed: {error}"[:_LONGEST_TEXT]
    return _outcome("crashed", text, rank=int(rank[1]) if rank else None)


def _outcome(kind: OutcomeKind, text: str, **where: Any) -> Outcome:
    return Outcome(kind, text, names.OUTCOMES[kind], **where)


def _step_times(series: Columns) -> Iterator[float]:
    """Yield the time of the last step of each rank, in Unix seconds."""
    for column in by_rank(series, names.STEP).values():
        yield column.times_us[-1] / 1e6
    for column in by_rank(series, names.SAMPLES).values():
        # Totals are recorded again at the end of the process.
        first = next(i for i, value in enumerate(column.values) if value == column.values[-1])
        yield column.times_us[first] / 1e6
