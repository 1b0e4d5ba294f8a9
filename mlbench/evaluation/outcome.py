"""Outcome of a run: its target reached or not, a loss of NaN, a hang, or a crash."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any

from mlbench.contract import names
from mlbench.contract.diagnosis import Diagnosis
from mlbench.contract.names import ACTIVE_STATES, OutcomeKind
from mlbench.contract.records import Outcome, Target
from mlbench.contract.results import TimeToTarget
from mlbench.evaluation.goodput import Useless
from mlbench.evaluation.inputs import Columns, NotFiniteLoss, RunRow, by_rank, finite_by_rank

_MAX_TEXT_LENGTH = 300


@dataclass(frozen=True)
class Hang:
    """A hang that lasted until the end of the run."""

    since: float
    """Unix seconds of the last step of any rank; of the diagnosis if no rank reported a step."""
    steps: int
    """Largest number of steps of any rank."""
    sentence: str
    """Verdict of the diagnosis."""
    rank: int | None
    """Rank at fault; None if the diagnosis blames several ranks or none."""


def not_finite_loss(run: RunRow, target: Target | None, series: Columns) -> NotFiniteLoss | None:
    """Return the first NaN or infinity of a loss or the target's metric; None if all are finite.

    A later finite value of the same series makes the loss count as finite again.
    """
    losses = [run.not_finite] if run.not_finite else []
    for column in by_rank(series, target.metric).values() if target else ():
        first = len(column.values)
        while first and not isfinite(column.values[first - 1]):
            first -= 1
        if target and first < len(column.values):
            losses.append(NotFiniteLoss(target.metric, column.times_us[first] / 1e6))
    return min(losses, key=lambda loss: loss.since, default=None)


def hang_of(run: RunRow, series: Columns, diagnoses: Sequence[Diagnosis]) -> Hang | None:
    """Return the hang that the run is in, or was in when it was ended; None without one."""
    attempts = (diagnosis for diagnosis in reversed(diagnoses) if diagnosis.attempt == run.attempt)
    last = next(attempts, None)
    # Diagnoses of failed ranks explain a crash, not a hang.
    if last is None or last.reason not in ("asked", "stalled", "deadline", "stopped"):
        return None
    # In these cases ranks make progress, or have exited.
    has_exited = run.state == "FINISHED" and not run.reason
    if last.verdict.kind in ("progressing", "exited") or has_exited:
        return None
    quiet_since = [e.at - e.quiet_seconds for e in last.evidence if e.quiet_seconds is not None]
    is_unsure = not quiet_since or last.verdict.certainty == "none"
    if last.reason != "stalled" and is_unsure:
        return None  # The run may only be slow.
    asked_at = datetime.fromisoformat(last.asked_at).timestamp()
    step_times = [column.times_us[-1] / 1e6 for column in by_rank(series, names.STEP).values()]
    for column in by_rank(series, names.SAMPLES).values():
        # Totals are recorded again at the end of the process.
        first = next(i for i, value in enumerate(column.values) if value == column.values[-1])
        step_times.append(column.times_us[first] / 1e6)
    if any(at > asked_at for at in step_times):
        return None
    # The steps that agents report may be a second old.
    steps = [float(evidence.steps) for evidence in last.evidence]
    steps += [max(column.values) for column in finite_by_rank(series, names.STEP).values()]
    since = max(quiet_since, default=asked_at)
    at_fault = last.verdict.at_fault
    rank = at_fault[0] if len(at_fault) == 1 else None
    return Hang(since, round(max(steps, default=0.0)), last.verdict.sentence, rank)


def useless_from(loss: NotFiniteLoss | None, hang: Hang | None) -> Useless | None:
    """Return the time from which a run could not succeed, with its bucket; None if it could.

    The earlier one counts if a run diverged and hung.
    """
    begun: list[Useless] = []
    if loss:
        begun.append((round(loss.since * 1e6), "diverged"))
    if hang:
        begun.append((round(hang.since * 1e6), "hung"))
    return min(begun, default=None)


def outcome_of(
    run: RunRow,
    target: Target | None,
    reached: TimeToTarget | None,
    loss: NotFiniteLoss | None,
    hang: Hang | None,
    *,
    is_reached: bool,
) -> Outcome | None:
    """Return the outcome of a run; None while the run is active.

    ``is_reached`` tells whether a value reached the target, even at an unknown time.
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
        outcome = _outcome(
            "hung", text[:_MAX_TEXT_LENGTH], since=hang.since, step=hang.steps, rank=hang.rank
        )
    elif run.state == "FAILED":
        # The first line of a reason names the rank, and the last one the error.
        lines = run.reason.strip().splitlines() or ["unknown error"]
        error = lines[0].strip().rstrip(":")
        rank = re.search(r"rank (\d+)\b", error)
        if len(lines) > 1:
            error += f": {lines[-1].strip()}"
        text = f"crashed: {error}"[:_MAX_TEXT_LENGTH]
        outcome = _outcome("crashed", text, rank=int(rank[1]) if rank else None)
    elif is_reached and reached is None:
        outcome = _outcome("reached", "target reached, at an unknown time")
    elif is_reached and reached:
        seconds, clock = reached.wall_seconds, "since the start"
        if reached.training_seconds is not None:
            seconds, clock = reached.training_seconds, "of training"
        at = (run.started_at or 0.0) + reached.wall_seconds
        outcome = _outcome("reached", f"target reached in {seconds:.4g} s {clock}", since=at)
    elif run.state == "STOPPED":
        outcome = _outcome("stopped", "stopped")
    elif target:
        outcome = _outcome("not_reached", "target not reached")
    return outcome


def _outcome(kind: OutcomeKind, text: str, **where: Any) -> Outcome:
    return Outcome(kind, text, names.OUTCOMES[kind], **where)
