"""The processes of a run, what they recorded of their time, and which of it led to the end. Pure.

All times are microseconds in the run's time, all totals seconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from mlbench.contract import names
from mlbench.contract.names import PHASES
from mlbench.evaluation.inputs import ByRank, Column, Columns, RankRow, finite_by_rank
from mlbench.evaluation.timeline import Line

Key = tuple[int, int]
"""An attempt, and how often torchrun had begun its processes anew in it."""

_METRICS = (
    *(names.TRAIN_SECONDS, names.SAMPLES, names.RESTORED_STEP),
    *(names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *(names.phase_metric(phase) for phase in PHASES),
)
_NEVER_US = 1 << 62
_LATEST_SECONDS = 1e11  # some thousand years from now
# What is recorded within a millisecond was recorded at once.
_AT_ONCE_US = 1000


@dataclass(frozen=True)
class Life:
    """A process from its start on, with what it recorded."""

    key: Key
    rank: str
    began_us: int
    totals: Mapping[str, Column] = field(repr=False)
    """By metric; none is empty."""

    @cached_property
    def has_clock(self) -> bool:
        """Whether it recorded its training time."""
        return names.TRAIN_SECONDS in self.totals

    @property
    def _clock(self) -> Column:
        return self.totals[names.TRAIN_SECONDS]

    @property
    def last_us(self) -> int:
        """When it recorded its training time last."""
        return self._clock.times_us[-1]

    @cached_property
    def restored_step(self) -> float | None:
        """The step that it went on from; None if it does not say."""
        column = self.totals.get(names.RESTORED_STEP)
        return column.values[-1] if column else None

    @cached_property
    def is_resumed(self) -> bool:
        """Whether it went on from a checkpoint.

        One that does not say so did, if its first training time is longer than it has been there.
        """
        if self.restored_step is not None:
            return self.restored_step > 0
        first_us, seconds = self._clock.times_us[0], self._clock.values[0]
        return seconds * 1e6 > first_us - self.began_us

    @cached_property
    def carried_seconds(self) -> float:
        """The training time that it went on from."""
        return self._clock.values[0] if self.is_resumed else 0.0

    @cached_property
    def trains_us(self) -> int:
        """When its training began: one that goes on records its first totals then."""
        trained = self._clock.values[0] - self.carried_seconds
        return self._clock.times_us[0] - whole_us(trained)

    def before_training(self, metric: str) -> float:
        """Return a total as it was when the training began.

        Of its first value, what is longer than the training until then came before it.
        """
        column, first_us = self.totals.get(metric), self._clock.times_us[0]
        if column is None or column.times_us[0] > first_us + _AT_ONCE_US:
            return 0.0
        return max(0.0, column.values[0] - (first_us - self.trains_us) / 1e6)

    def at(self, metric: str, time_us: int) -> float:
        """Return a total at a time of the training, interpolated between what was recorded."""
        column = self.totals.get(metric)
        if column is None:
            return 0.0
        first_us = column.times_us[0]
        if time_us < first_us:
            before = self.before_training(metric)
            column = Column([self.trains_us, first_us], [before, column.values[0]])
        return column.at(time_us)

    def in_training(self, metric: str, until_us: int) -> float:
        """Return how much was added to a total from the begin of the training to a time."""
        if metric == names.TRAIN_SECONDS:
            return max(0.0, self.at(metric, until_us) - self.carried_seconds)
        return max(0.0, self.at(metric, until_us) - self.before_training(metric))


def whole_us(seconds: float) -> int:
    """Return a time in microseconds; what cannot be a time counts as the nearest that can be."""
    return round(min(seconds, _LATEST_SECONDS) * 1e6) if seconds > 0 else 0


def lives_of(ranks: Sequence[RankRow], series: Columns) -> dict[str, list[Life]]:
    """Return the processes of each rank, in order of time; ``series`` have the run's time."""
    totals = {metric: finite_by_rank(series, metric) for metric in _METRICS}
    begun: dict[str, list[tuple[Key, int, int]]] = {}
    for row in sorted(ranks, key=lambda row: row.attempt):
        for process in map(str, row.ranks):
            begun.setdefault(process, []).extend(_begun(row))
    return {rank: list(_cut(rank, keys, totals)) for rank, keys in begun.items()}


def _begun(row: RankRow) -> Iterator[tuple[Key, int, int]]:
    """Yield the processes of a worker in an attempt: when they may record, and when they began."""
    assigned_us = round(row.assigned_at * 1e6)
    yield (row.attempt, 0), assigned_us, max(assigned_us, whole_us(row.reported_at or 0.0))
    restarts = row.processes.restarts if row.processes else {}
    for number, at in sorted(restarts.items(), key=lambda one: one[1]):
        if number != "0":
            yield (row.attempt, int(number)), whole_us(at), whole_us(at)


def _cut(
    rank: str, begun: Sequence[tuple[Key, int, int]], totals: Mapping[str, ByRank]
) -> Iterator[Life]:
    """Divide what a rank recorded among its processes."""
    recorded = {metric: of_ranks[rank] for metric, of_ranks in totals.items() if rank in of_ranks}
    for (key, from_us, began_us), (_, until_us, _) in pairwise([*begun, ((0, 0), _NEVER_US, 0)]):
        its = {metric: _between(column, from_us, until_us) for metric, column in recorded.items()}
        its = {metric: column for metric, column in its.items() if column.times_us}
        first_us = min((column.times_us[0] for column in its.values()), default=began_us)
        yield Life(key, rank, min(began_us, first_us), its)


def _between(column: Column, from_us: int, until_us: int) -> Column:
    first, end = column.first_from(from_us), column.first_from(until_us)
    return Column(column.times_us[first:end], column.values[first:end])


def kept_until(lives: Iterable[Life], line: Line) -> dict[tuple[str, Key], int]:
    """Return up to when each process that trained led to the final model.

    What it did after that had to be done again from a checkpoint.
    """
    kept: dict[tuple[str, Key], int] = {}
    for life in lives:
        if life.has_clock:
            left = line.abandoned.get(life.rank, ())
            firsts = (first_us for first_us, end_us in left if first_us <= life.last_us < end_us)
            kept[life.rank, life.key] = max(life.trains_us, next(firsts, _NEVER_US))
    return kept
