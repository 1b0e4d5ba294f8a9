"""The processes of a run, what they recorded of their time, and which of it led to the end. Pure.

All times are microseconds in the run's time, all totals seconds.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from mlbench import names
from mlbench.evaluation.columns import ByRank, Column, Columns, finite_by_rank
from mlbench.evaluation.dates import Dates
from mlbench.evaluation.rows import RankRow
from mlbench.names import PHASES

Key = tuple[int, int]
"""An attempt, and how often torchrun had begun its processes anew in it."""

_METRICS = (
    *(names.TRAIN_SECONDS, names.SAMPLES, names.CHECKPOINT_STEP, names.RESTORED_STEP),
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

    def had_trained_us(self, seconds: float) -> int:
        """Return when it had trained for so long; its last time if it never had."""
        times_us, values = self._clock.times_us, self._clock.values
        after = bisect_left(values, seconds)
        if not 0 < after < len(values):
            return times_us[0] if not after else times_us[-1]
        share = (seconds - values[after - 1]) / (values[after] - values[after - 1])
        return times_us[after - 1] + round(share * (times_us[after] - times_us[after - 1]))


def whole_us(seconds: float) -> int:
    """Return a time in microseconds; what cannot be a time counts as the nearest that can be."""
    return round(min(seconds, _LATEST_SECONDS) * 1e6) if seconds > 0 else 0


def lives_of(ranks: Sequence[RankRow], series: Columns, dates: Dates) -> dict[str, list[Life]]:
    """Return the processes of each rank, in order of time."""
    totals = {metric: finite_by_rank(series, metric) for metric in _METRICS}
    begun: dict[str, list[tuple[Key, int, int]]] = {}
    for row in sorted(ranks, key=lambda row: row.attempt):
        for process in map(str, row.ranks):
            begun.setdefault(process, []).extend(_begun(row))
    return {rank: list(_cut(rank, keys, totals, dates)) for rank, keys in begun.items()}


def _begun(row: RankRow) -> Iterator[tuple[Key, int, int]]:
    """Yield the processes of a worker in an attempt: when they may record, and when they began."""
    assigned_us = round(row.assigned_at * 1e6)
    yield (row.attempt, 0), assigned_us, max(assigned_us, whole_us(row.reported_at or 0.0))
    restarts = row.processes.restarts if row.processes else {}
    for number, at in sorted(restarts.items(), key=lambda one: one[1]):
        if number != "0":
            yield (row.attempt, int(number)), whole_us(at), whole_us(at)


def _cut(
    rank: str, begun: Sequence[tuple[Key, int, int]], totals: Mapping[str, ByRank], dates: Dates
) -> Iterator[Life]:
    """Divide what a rank recorded among its processes."""
    recorded = {metric: of_ranks[rank] for metric, of_ranks in totals.items() if rank in of_ranks}
    placed = {
        metric: Column(dates.place(rank, column.times_us), column.values)
        for metric, column in recorded.items()
    }
    for (key, from_us, began_us), (_, until_us, _) in pairwise([*begun, ((0, 0), _NEVER_US, 0)]):
        its = {metric: _between(column, from_us, until_us) for metric, column in placed.items()}
        its = {metric: column for metric, column in its.items() if column.times_us}
        first_us = min((column.times_us[0] for column in its.values()), default=began_us)
        yield Life(key, rank, min(began_us, first_us), its)


def _between(column: Column, from_us: int, until_us: int) -> Column:
    first, end = column.first_from(from_us), column.first_from(until_us)
    return Column(column.times_us[first:end], column.values[first:end])


Sources = Mapping[tuple[str, Key], tuple[Key, int]]
"""By rank and process: the one before it whose checkpoint it went on from, and up to when."""


def sources_of(lives: Mapping[str, Sequence[Life]]) -> Sources:
    """Return what processes went on from: up to when the checkpoint lay on the disk.

    If none was recorded, up to when one before it had trained as long as its own clock has.
    """
    saved: dict[float, dict[Key, dict[str, int]]] = {}
    for life in (life for of_rank in lives.values() for life in of_rank):
        if column := life.totals.get(names.CHECKPOINT_STEP):
            for at_us, step in zip(column.times_us, column.values, strict=True):
                saved.setdefault(step, {}).setdefault(life.key, {}).setdefault(life.rank, at_us)
    sources = {}
    for rank, of_rank in lives.items():
        trained = [life for life in of_rank if life.has_clock]
        for i, life in enumerate(trained):
            before = [earlier for earlier in trained[:i] if earlier.key < life.key]
            if life.is_resumed and (source := _source(life, before, saved)):
                sources[rank, life.key] = source
    return sources


def _source(
    life: Life, before: Sequence[Life], saved: Mapping[float, Mapping[Key, Mapping[str, int]]]
) -> tuple[Key, int] | None:
    of_step = saved.get(life.restored_step or 0.0, {})
    key = max((key for key in of_step if key < life.key), default=None)
    if key is not None:
        # A rank that lacks its own takes over another's.
        return key, of_step[key].get(life.rank, min(of_step[key].values()))
    seconds = life.carried_seconds
    source = next((past for past in reversed(before) if past.carried_seconds <= seconds), None)
    return (source.key, source.had_trained_us(seconds)) if source else None


def descent(lives: Mapping[str, Sequence[Life]], sources: Sources) -> dict[tuple[str, Key], int]:
    """Return up to when each process led to the final model; what is missing led nowhere.

    All of the last one did, then all that it went on from, and so on.
    """
    kept: dict[tuple[str, Key], int] = {}
    for rank, of_rank in lives.items():
        key = next((life.key for life in reversed(of_rank) if life.has_clock), None)
        until_us = _NEVER_US
        while key is not None:
            kept[rank, key] = until_us
            key, until_us = sources.get((rank, key), (None, 0))
    return kept
