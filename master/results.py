"""What a run reached, computed from its stored series alone, whatever wrote them.

Series in, figures out: no database, no network, no clock. ``mlbench.results`` says what each is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from master.accuracy import Accuracy, Evaluation
from master.reading.columns import ByRank, Column, Columns, by_rank, finite_by_rank
from mlbench import names
from mlbench.names import PHASES
from mlbench.records import Division
from mlbench.results import Cost, Result, Target

# A larger number counts nothing.
_LARGEST_COUNT = 2**53
_OTHER = "other"

TOTALS = (
    names.TRAIN_SECONDS,
    names.SAMPLES,
    names.EPOCH,
    *(names.phase_metric(phase) for phase in PHASES),
)
"""The metrics that a result is computed from, besides its target's."""


@dataclass(frozen=True)
class Question:
    """What a run is judged by."""

    target: Target | None
    after_seconds: float
    """Of accuracy after time."""
    price: float | None
    """Of a worker-second."""


@dataclass(frozen=True)
class Occupation:
    """A worker that a rank of an attempt took, from one moment to another, in Unix seconds."""

    attempt: int
    began_at: float
    ended_at: float

    def seconds(self, until: float) -> float:
        """Return for how long it was taken until a moment."""
        return max(0.0, min(self.ended_at, until) - self.began_at)


@dataclass(frozen=True)
class Course:
    """A run, and what is known of how it went besides its series. Times are Unix seconds."""

    run_id: int
    name: str
    benchmark: str
    state: str
    num_workers: int
    division: Division
    departures: tuple[str, ...]
    started_at: float | None
    ended_at: float
    """Now, for a run that has not ended."""
    occupations: Sequence[Occupation]
    """Of all ranks and attempts."""
    energy_joules: float | None


def evaluate(course: Course, question: Question, series: Columns) -> Result:
    """Return the figures of a run: from those of its series that are not dated before its start."""
    target, started_at = question.target, course.started_at
    accuracy = None
    if target is not None and started_at is not None:
        accuracy = _accuracy(course, target, round(started_at * 1e6), series)
    reached = accuracy.reached() if accuracy else None
    clocks = finite_by_rank(series, names.TRAIN_SECONDS)
    done = finite_by_rank(series, names.SAMPLES)
    samples = _last_values(done)
    phases, communication_share = _phases(series, clocks)
    return Result(
        run_id=course.run_id,
        name=course.name,
        benchmark=course.benchmark,
        state=course.state,
        num_workers=course.num_workers,
        division=course.division,
        departures=course.departures,
        target=target,
        time_to_accuracy=accuracy.time_to(reached) if accuracy and reached else None,
        accuracy_after_time=accuracy.after(question.after_seconds) if accuracy else None,
        last_value=accuracy.last() if accuracy else None,
        best_value=accuracy.best() if accuracy else None,
        epochs=_epochs(series),
        samples=sum(samples) if samples else None,
        training_seconds=_mean(_last_values(clocks)),
        wall_seconds=None if started_at is None else course.ended_at - started_at,
        samples_per_second=_ratio(sum(samples), _clocked([done], clocks)) if samples else None,
        phases=phases,
        communication_share=communication_share,
        cost=_cost(course, reached, question.price),
        energy_joules=course.energy_joules,
        curve=accuracy.curve(reached) if accuracy else None,
    )


def _accuracy(course: Course, target: Target, started_us: int, series: Columns) -> Accuracy:
    began: dict[int, float] = {}
    for one in course.occupations:
        began[one.attempt] = min(one.began_at, began.get(one.attempt, one.began_at))
    return Accuracy(
        target,
        by_rank(series, target.metric),
        finite_by_rank(series, names.TRAIN_SECONDS),
        started_us,
        sorted(round(at * 1e6) for at in began.values()),
    )


def _phases(series: Columns, clocks: ByRank) -> tuple[dict[str, float], float | None]:
    """Return the mean seconds in each phase and in none, and the share of communication.

    A rank that recorded some phases, and not another one, spent no time in that.
    """
    totals = {phase: finite_by_rank(series, names.phase_metric(phase)) for phase in PHASES}
    ranks = {rank for ranks in totals.values() for rank in ranks}
    phases: dict[str, float] = {
        phase: sum(_last_values(found)) / len(ranks) for phase, found in totals.items() if found
    }
    training_seconds = _clocked(list(totals.values()), clocks)
    share = _ratio(phases.get("communication"), training_seconds)
    if phases and training_seconds is not None:
        # Evaluation is no training time.
        known = sum(seconds for phase, seconds in phases.items() if phase != "evaluation")
        phases[_OTHER] = max(0.0, training_seconds - known)
    return phases, share


def _clocked(totals: Sequence[ByRank], clocks: ByRank) -> float | None:
    """Return the mean training time of the ranks at their last totals.

    They record their clock more often: a run that goes on, or was killed, has not said what it did
    since its totals.
    """
    last_us: dict[str, int] = {}
    for ranks in totals:
        for rank, column in ranks.items():
            last_us[rank] = max(column.times_us[-1], last_us.get(rank, column.times_us[-1]))
    at_totals = [_value_at(clocks[rank], at) for rank, at in last_us.items() if rank in clocks]
    return _mean(at_totals or _last_values(clocks))


def _value_at(clock: Column, time_us: int) -> float:
    """Return what a clock says at a time or next, by Prometheus's milliseconds; else its last."""
    position = clock.first_from(time_us // 1000 * 1000)
    return clock.values[min(position, len(clock.values) - 1)]


def _epochs(series: Columns) -> int | None:
    """Return how many epochs the first rank has begun; they count from 0."""
    begun = _last_values(finite_by_rank(series, names.EPOCH))
    return round(begun[0]) + 1 if begun and abs(begun[0]) < _LARGEST_COUNT else None


def _cost(course: Course, reached: Evaluation | None, price: float | None) -> Cost | None:
    if course.started_at is None:
        return None
    total = sum(one.seconds(course.ended_at) for one in course.occupations)
    to_target = None
    if reached is not None:
        to_target = sum(one.seconds(reached.time_us / 1e6) for one in course.occupations)
    return Cost(total, to_target, price, _product(total, price), _product(to_target, price))


def _last_values(columns: ByRank) -> list[float]:
    return [column.values[-1] for column in columns.values()]


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN where the sum is too large for a float."""
    try:
        return fmean(values)
    except (OverflowError, ValueError):  # of sums that are infinite, or infinities of both signs
        return math.nan


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _product(seconds: float | None, price: float | None) -> float | None:
    return None if seconds is None or price is None else seconds * price
