"""Time to accuracy, accuracy after time, and the curve of a run's values."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal, NamedTuple

from mlbench.contract.records import Goal
from mlbench.contract.results import AccuracyAfterTime, Curve, TimeToAccuracy
from mlbench.contract.stated import reaches
from mlbench.evaluation.inputs import ByRank, Column
from mlbench.evaluation.timeline import Dates

# The most points of a curve, about the pixels of a plot's width.
_CURVE_POINTS = 300
_NEVER_US = 1 << 62


class Evaluation(NamedTuple):
    """A value of the target's metric."""

    at_us: int
    """When it was recorded, in the run's time."""
    time_us: int
    """Its date, by whatever clock."""
    rank: str
    value: float


@dataclass(frozen=True)
class Accuracy:
    """The values of a target's metric, and the training time at which they were recorded."""

    target: Goal
    values: ByRank
    clocks: ByRank
    """Training seconds by rank, all finite."""
    started_us: int
    dates: Dates
    until: float = math.inf
    """Unix seconds from which on values do not count, because the model is NaN."""

    def reached(self) -> Evaluation | None:
        """Return the earliest value of any rank that is as good as the target."""
        first = min(filter(None, map(self._first_reaching, self.values)), default=None)
        return first if first and first.time_us < self.until * 1e6 else None

    def time_to(self, reached: Evaluation) -> TimeToAccuracy:
        """Return the time that it took to reach a value."""
        return TimeToAccuracy(
            self.training_seconds(reached.rank, reached.time_us), self._wall(reached.at_us)
        )

    def last(self) -> float | None:
        """Return the last value of any rank."""
        lasts = [next(self._evaluations(rank, backwards=True)) for rank in self.values]
        return max(lasts, key=lambda one: one.at_us).value if lasts else None

    def best(self) -> float | None:
        """Return the best value of any rank, without NaN."""
        numbers = (v for column in self.values.values() for v in column.values if not isnan(v))
        best = min if self.target.lower_is_better else max
        return best(numbers, default=None)

    def after(self, limit_seconds: float) -> AccuracyAfterTime:
        """Return the last value of any rank within a time."""
        lasts = filter(None, [self._last_within(rank, limit_seconds) for rank in self.values])
        last = max(lasts, key=lambda one: one.at_us, default=None)
        if last is None:
            return AccuracyAfterTime(
                limit_seconds, None, None, "training" if self.clocks else "wall"
            )
        return AccuracyAfterTime(limit_seconds, last.value, *self._seconds(last))

    def curve(self, reached: Evaluation | None) -> Curve | None:
        """Return the values of the rank that reached the target, or of the first, thinned out."""
        if not self.values:
            return None
        rank = reached.rank if reached else next(iter(self.values))
        at_us, order = self._in_order(rank)
        chosen = [self._evaluation(rank, at_us, order[i]) for i in _spread(len(order))]
        return Curve(
            tuple(self._wall(evaluation.at_us) for evaluation in chosen),
            tuple(self.training_seconds(rank, evaluation.time_us) for evaluation in chosen),
            tuple(evaluation.value for evaluation in chosen),
        )

    def training_seconds(self, rank: str, time_us: int) -> float | None:
        """Return the training time that a rank's process recorded in a millisecond, or next.

        The next one is later, so it never flatters. The clock of another process may begin anew.
        """
        clock = self._clock(rank)
        if clock is None:
            return None
        this_ms = time_us // 1000 * 1000
        later = clock.first_from(this_ms + 1000)
        if later > clock.first_from(this_ms):
            return clock.values[later - 1]
        if later < len(clock.times_us) and clock.times_us[later] < self._next_begin(time_us):
            return clock.values[later]
        return None

    def _clock(self, rank: str) -> Column | None:
        """Return a rank's clock; for values without a rank, the first clock."""
        found = self.clocks.get(rank) or self.clocks.get("")
        return found or (next(iter(self.clocks.values()), None) if not rank else None)

    def _next_begin(self, time_us: int) -> int:
        begun = self.dates.begun_us
        following = bisect_right(begun, time_us)
        return begun[following] if following < len(begun) else _NEVER_US

    def _wall(self, at_us: int) -> float:
        return (at_us - self.started_us) / 1e6

    def _seconds(self, one: Evaluation) -> tuple[float, Literal["training", "wall"]]:
        """Return a time in training seconds; where these were not recorded, since the start."""
        training = self.training_seconds(one.rank, one.time_us)
        return (self._wall(one.at_us), "wall") if training is None else (training, "training")

    def _evaluations(self, rank: str, *, backwards: bool = False) -> Iterator[Evaluation]:
        """Yield a rank's values in order of time, or from the last one to the first."""
        at_us, order = self._in_order(rank)
        for i in reversed(order) if backwards else order:
            yield self._evaluation(rank, at_us, i)

    def _in_order(self, rank: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return when a rank's values were recorded, and their positions in order of that."""
        times_us = self.values[rank].times_us
        at_us = self.dates.place(rank, times_us)
        positions = range(len(at_us))
        return at_us, positions if at_us is times_us else sorted(positions, key=at_us.__getitem__)

    def _evaluation(self, rank: str, at_us: Sequence[int], i: int) -> Evaluation:
        column = self.values[rank]
        return Evaluation(at_us[i], column.times_us[i], rank, column.values[i])

    def _first_reaching(self, rank: str) -> Evaluation | None:
        goal, lower = self.target.value, self.target.lower_is_better
        evaluations = self._evaluations(rank)
        return next((o for o in evaluations if reaches(o.value, goal, lower_is_better=lower)), None)

    def _last_within(self, rank: str, limit_seconds: float) -> Evaluation | None:
        evaluations = self._evaluations(rank, backwards=True)
        return next((one for one in evaluations if self._seconds(one)[0] <= limit_seconds), None)


def _spread(length: int) -> Sequence[int]:
    """Return evenly spread positions from the first to the last."""
    if length <= _CURVE_POINTS:
        return range(length)
    return [i * (length - 1) // (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]
