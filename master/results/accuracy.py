"""Time to accuracy, accuracy after time, and the curve of a run's values."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal, NamedTuple

from master.results.columns import ByRank, Column
from mlbench.records import Goal
from mlbench.results import AccuracyAfterTime, Curve, TimeToAccuracy
from mlbench.stated import reaches

# The most points of a curve, about the pixels of a plot's width.
_CURVE_POINTS = 300
_NEVER_US = 1 << 62


class Evaluation(NamedTuple):
    """A value of the target's metric."""

    time_us: int
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
    attempts_us: Sequence[int]
    """When each attempt began, in order."""

    def reached(self) -> Evaluation | None:
        """Return the earliest value of any rank that is as good as the target."""
        found = [self._first_reaching(rank) for rank in self.values]
        return min((one for one in found if one), key=lambda one: one.time_us, default=None)

    def time_to(self, reached: Evaluation) -> TimeToAccuracy:
        """Return the time that it took to reach a value."""
        return TimeToAccuracy(
            self.training_seconds(reached.rank, reached.time_us), self._wall(reached.time_us)
        )

    def last(self) -> float | None:
        """Return the last value of any rank."""
        lasts = [(column.times_us[-1], column.values[-1]) for column in self.values.values()]
        return max(lasts, key=lambda one: one[0])[1] if lasts else None

    def best(self) -> float | None:
        """Return the best value of any rank, without NaN."""
        numbers = (v for column in self.values.values() for v in column.values if not isnan(v))
        best = min if self.target.lower_is_better else max
        return best(numbers, default=None)

    def after(self, limit_seconds: float) -> AccuracyAfterTime:
        """Return the last value of any rank within a time."""
        found = [self._last_within(rank, limit_seconds) for rank in self.values]
        last = max((one for one in found if one), key=lambda one: one.time_us, default=None)
        if last is None:
            return AccuracyAfterTime(
                limit_seconds, None, None, "training" if self.clocks else "wall"
            )
        seconds, clock = self._seconds(last.rank, last.time_us)
        return AccuracyAfterTime(limit_seconds, last.value, seconds, clock)

    def curve(self, reached: Evaluation | None) -> Curve | None:
        """Return the values of the rank that reached the target, or of the first, thinned out."""
        if not self.values:
            return None
        rank = reached.rank if reached else next(iter(self.values))
        column = self.values[rank]
        chosen = _spread(len(column.values))
        times = [column.times_us[i] for i in chosen]
        return Curve(
            tuple(self._wall(time_us) for time_us in times),
            tuple(self.training_seconds(rank, time_us) for time_us in times),
            tuple(column.values[i] for i in chosen),
        )

    def training_seconds(self, rank: str, time_us: int) -> float | None:
        """Return the training time that a rank recorded in a millisecond, or next in its attempt.

        The next one is later, so it never flatters. The clock of another attempt may begin anew.
        """
        clock = self._clock(rank)
        if clock is None:
            return None
        this_ms = time_us // 1000 * 1000
        later = clock.first_from(this_ms + 1000)
        if later > clock.first_from(this_ms):
            return clock.values[later - 1]
        if later < len(clock.times_us) and clock.times_us[later] < self._attempt_end(time_us):
            return clock.values[later]
        return None

    def _clock(self, rank: str) -> Column | None:
        """Return a rank's clock; for values without a rank, the first clock."""
        found = self.clocks.get(rank) or self.clocks.get("")
        return found or (next(iter(self.clocks.values()), None) if not rank else None)

    def _attempt_end(self, time_us: int) -> int:
        following = bisect_right(self.attempts_us, time_us)
        return self.attempts_us[following] if following < len(self.attempts_us) else _NEVER_US

    def _wall(self, time_us: int) -> float:
        return (time_us - self.started_us) / 1e6

    def _seconds(self, rank: str, time_us: int) -> tuple[float, Literal["training", "wall"]]:
        """Return a time in training seconds; where these were not recorded, since the start."""
        training = self.training_seconds(rank, time_us)
        return (self._wall(time_us), "wall") if training is None else (training, "training")

    def _first_reaching(self, rank: str) -> Evaluation | None:
        goal, lower = self.target.value, self.target.lower_is_better
        column = self.values[rank]
        evaluations = zip(column.times_us, column.values, strict=True)
        found = (one for one in evaluations if reaches(one[1], goal, lower_is_better=lower))
        return next((Evaluation(time_us, rank, value) for time_us, value in found), None)

    def _last_within(self, rank: str, limit_seconds: float) -> Evaluation | None:
        column = self.values[rank]
        evaluations = zip(reversed(column.times_us), reversed(column.values), strict=True)
        found = (one for one in evaluations if self._seconds(rank, one[0])[0] <= limit_seconds)
        return next((Evaluation(time_us, rank, value) for time_us, value in found), None)


def _spread(length: int) -> Sequence[int]:
    """Return evenly spread positions from the first to the last."""
    if length <= _CURVE_POINTS:
        return range(length)
    return [i * (length - 1) // (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]
