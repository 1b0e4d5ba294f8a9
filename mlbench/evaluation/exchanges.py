"""How long each rank communicated in the same steps, which tells who waited for whom. Pure.

Ranks end an exchange together. The rank that communicates least in a step came last, and what the
others communicate longer than it is waiting.

A tracker records the communication of single steps: of the first 500 after the warm-up, then of
ever fewer, the same ones on all ranks. Recordings of earlier versions have totals alone, about one
a second and at other times on each rank. There, spans of some seconds take the place of steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from mlbench.contract import names
from mlbench.contract.sampled_steps import steps_per_sample
from mlbench.evaluation.inputs import Column

_COMMUNICATION = names.phase_metric("communication")
# More values than this, over all ranks, tell no more and take long to compare.
_MOST_VALUES = 100_000

Recorded = Mapping[str, Mapping[str, Column]]
"""The columns of each rank by metric, with times in the run's time."""


@dataclass(frozen=True)
class Exchange:
    """The communication of ranks in a step, or in a span of several steps."""

    at_us: int
    """The end of the step or span on the first rank, in microseconds of the run's time."""
    steps: float
    """Number of steps, or of spans, that it stands for; together they are all of the training."""
    seconds: Mapping[str, float]
    """Communication in it by rank, of each step that it stands for."""

    @property
    def least(self) -> float:
        """The communication of the rank that came last, in seconds."""
        return min(self.seconds.values())


def exchanges_of(recorded: Recorded, span_us: int) -> list[Exchange]:
    """Return the exchanges of at least two ranks in order; empty if one recorded none.

    ``span_us`` is the length of spans in recordings that have totals alone.
    """
    if len(recorded) < 2:
        return []
    if all(names.SAMPLED_STEP in totals for totals in recorded.values()):
        return _sampled(recorded)
    if all({names.TRAIN_SECONDS, _COMMUNICATION} <= totals.keys() for totals in recorded.values()):
        return _spans(recorded, span_us)
    return []


def outside(exchanges: Sequence[Exchange], spans: Iterable[tuple[int, int]]) -> list[Exchange]:
    """Return the exchanges that no span of time touches; ``spans`` are in microseconds."""
    excluded = list(spans)
    ends_us = [exchange.at_us for exchange in exchanges]
    return [
        exchange
        for before_us, exchange in zip([0, *ends_us], exchanges, strict=False)
        if not any(begin < exchange.at_us and end > before_us for begin, end in excluded)
    ]


def _sampled(recorded: Recorded) -> list[Exchange]:
    """Return the steps that all ranks recorded."""
    of_ranks: dict[str, dict[int, float]] = {}
    at_us: dict[int, int] = {}
    for rank, totals in recorded.items():
        steps = totals[names.SAMPLED_STEP]
        seconds = totals.get(names.SAMPLED_COMMUNICATION, Column([], []))
        # A step that was done again after a restart counts as it was the last time.
        by_time = dict(zip(seconds.times_us, seconds.values, strict=True))
        numbered = zip(steps.times_us, map(round, steps.values), strict=True)
        times = {number: time_us for time_us, number in numbered if time_us in by_time}
        of_ranks[rank] = {number: by_time[time_us] for number, time_us in times.items()}
        at_us = at_us or times
    common = sorted(set.intersection(*(set(steps) for steps in of_ranks.values())))
    common = common[:: ceil(len(common) * len(recorded) / _MOST_VALUES) or 1]
    counted = sum(map(steps_per_sample, common))
    return [
        Exchange(
            at_us[number],
            steps_per_sample(number) * common[-1] / counted,
            {rank: seconds[number] for rank, seconds in of_ranks.items()},
        )
        for number in common
    ]


def _spans(recorded: Recorded, span_us: int) -> list[Exchange]:
    """Return spans of at least this length while all ranks trained, from the totals."""
    clocks = [totals[names.TRAIN_SECONDS] for totals in recorded.values()]
    began_us = max(clock.times_us[0] for clock in clocks)
    ended_us = max(began_us, min(clock.times_us[-1] for clock in clocks))
    count = max(1, min(_MOST_VALUES // len(recorded), (ended_us - began_us) // span_us))
    edges = [began_us + (ended_us - began_us) * i // count for i in range(count + 1)]
    covered = clocks[0].at(ended_us) - clocks[0].at(began_us)
    spans = clocks[0].values[-1] / covered if covered > 0 else 1.0
    spent: dict[str, list[float]] = {}
    for rank, totals in recorded.items():
        column, start_us = totals[_COMMUNICATION], totals[names.TRAIN_SECONDS].times_us[0]
        if column.times_us[0] > start_us:  # A phase is not recorded before it is entered.
            column = Column([start_us, *column.times_us], [0.0, *column.values])
        spent[rank] = [
            max(0.0, column.at(end) - column.at(begin)) for begin, end in pairwise(edges)
        ]
    return [
        Exchange(edges[i + 1], spans, {rank: seconds[i] for rank, seconds in spent.items()})
        for i in range(count)
    ]
