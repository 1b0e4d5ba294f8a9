"""What a run reached, read off its recorded series: whatever wrote them, texts are passed over."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mlbench import names
from mlbench.client import Point, Run, Series
from mlbench.goal import reaches
from mlbench.names import PHASES, Phase

Division = Literal["closed", "open"]


@dataclass(frozen=True)
class Result:
    """The figures of one run. What was not recorded is None, or absent."""

    accuracy: float | None
    """The goal's metric: its last value."""
    train_seconds_to_goal: float | None
    """Training time, evaluation left out, until the goal was reached."""
    wall_seconds_to_goal: float | None
    """Time from the run's start until the goal was reached."""
    epochs: int | None
    samples_per_second: float | None
    """Over all ranks, in training time."""
    phase_seconds: dict[Phase, float]
    """Seconds in each phase, averaged over the ranks."""
    other_seconds: float
    """Training time in no phase, averaged over the ranks."""


def evaluate(run: Run, series: Series) -> Result:
    """Return the result of a run so far."""
    goal_points = _first_rank(series, run.goal.metric) if run.goal else []
    reached = _first_reaching(run, goal_points)
    phases = _phases(series)
    train_seconds = _mean(_last_values(series, names.TRAIN_SECONDS))
    in_phases = sum(seconds for phase, seconds in phases.items() if phase != "evaluation")
    epoch = latest_count(series, names.EPOCH)
    return Result(
        accuracy=goal_points[-1].number if goal_points else None,
        train_seconds_to_goal=_train_seconds_at(series, reached),
        wall_seconds_to_goal=_seconds_between(run.started_at, reached.date) if reached else None,
        epochs=None if epoch is None else epoch + 1,
        samples_per_second=samples_per_second(series),
        phase_seconds=phases,
        other_seconds=max(0.0, (train_seconds or 0.0) - in_phases) if phases else 0.0,
    )


def samples_per_second(series: Series) -> float | None:
    """Return the training throughput over all ranks so far; nothing before the first epoch ended.

    Needs the last values of ``samples`` and ``train_seconds`` only.
    """
    samples = sum(_last_values(series, names.SAMPLES))
    seconds = _mean(_last_values(series, names.TRAIN_SECONDS))
    return samples / seconds if samples and seconds else None


def latest(series: Series, metric: str) -> float | None:
    """Return the last value of a metric at its first rank."""
    points = _first_rank(series, metric)
    return points[-1].number if points else None


def latest_count(series: Series, metric: str) -> int | None:
    """Return the last value of a metric that counts, such as the epoch, at its first rank."""
    value = latest(series, metric)
    return round(value) if value is not None and math.isfinite(value) else None


def _first_reaching(run: Run, points: Iterable[Point]) -> Point | None:
    if run.goal is None:
        return None
    wanted, lower = run.goal.value, run.goal.lower_is_better
    for point in points:
        if reaches(point.number, wanted, lower_is_better=lower):
            return point
    return None


def _train_seconds_at(series: Series, reached: Point | None) -> float | None:
    """Return the training time that was recorded in the same moment as a value."""
    if reached is None:
        return None
    at_once = [
        point.number
        for points in _by_rank(series, names.TRAIN_SECONDS)
        for point in points
        if point.date == reached.date
    ]
    return at_once[0] if at_once else None


def _phases(series: Series) -> dict[Phase, float]:
    found = {phase: _mean(_last_values(series, names.phase_metric(phase))) for phase in PHASES}
    return {phase: seconds for phase, seconds in found.items() if seconds is not None}


def _by_rank(series: Series, metric: str) -> list[list[Point]]:
    """Return a metric's points that hold numbers, rank by rank; the series of no rank first."""
    found = {
        int(rank) if rank else -1: [point for point in points if _is_number(point)]
        for name, points in series.items()
        for base, rank in [_split_name(name)]
        if base == metric
    }
    return [found[rank] for rank in sorted(found) if found[rank]]


def _split_name(name: str) -> tuple[str, str]:
    """Return metric and rank of a series; the rank is empty where it has none."""
    metric, _, rank = name.rpartition(" @ ")
    return (metric, rank) if metric and rank.isdecimal() else (name, "")


def _is_number(point: Point) -> bool:
    try:
        float(point.value)
    except ValueError:
        return False
    return True


def _first_rank(series: Series, metric: str) -> list[Point]:
    found = _by_rank(series, metric)
    return found[0] if found else []


def _last_values(series: Series, metric: str) -> list[float]:
    return [points[-1].number for points in _by_rank(series, metric)]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _seconds_between(start: str | None, end: str) -> float | None:
    if start is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
