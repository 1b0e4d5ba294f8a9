"""The time in which the ranks of a run were stopped, slowed or disconnected. Pure.

The master injects some of these stops as failures; agents notice others, such as a SIGSTOP from
elsewhere or a machine that slept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlbench.contract import names
from mlbench.contract.faults import Fault
from mlbench.evaluation.inputs import InjectedFault, RankRow, RunRow
from mlbench.evaluation.lives import Life, whole_us

_LASTING = ("stop", "slow", "network")
_NEVER_US = 1 << 62


@dataclass(frozen=True)
class Stop:
    """A span of an attempt in which its ranks were held up."""

    begin_us: int
    end_us: int
    share: float
    """Part of the span that was lost, 0 to 1."""


@dataclass(frozen=True)
class Stops:
    """The stops of an attempt, in order, none overlapping another."""

    spans: Sequence[Stop] = ()

    def seconds(self, life: Life, metric: str, until_us: int) -> float:
        """Return how much of a process's total until a time fell into stops, in seconds."""
        first_us = life.trains_us
        return sum(
            stop.share
            * (
                life.at(metric, min(stop.end_us, until_us))
                - life.at(metric, max(stop.begin_us, first_us))
            )
            for stop in self.spans
            if stop.begin_us < until_us and stop.end_us > first_us
        )

    def wall_seconds(self, life: Life, until_us: int) -> float:
        """Return how long stops lasted in the training of a process until a time, in seconds.

        The clock of a process does not run while its machine sleeps.
        """
        spans = (
            stop.share * (min(stop.end_us, until_us) - max(stop.begin_us, life.trains_us))
            for stop in self.spans
            if stop.begin_us < until_us and stop.end_us > life.trains_us
        )
        return sum(spans) / 1e6


def stops_of(run: RunRow, rows: Sequence[RankRow], lives: Mapping[str, Sequence[Life]]) -> Stops:
    """Return the stops of an attempt, whose ranks are ``rows``."""
    spans = [stop for fault in run.injected for stop in _stop(fault, rows, lives)]
    spans += [stop for row in rows for stop in _noticed(row)]
    edges = sorted({us for stop in spans for us in (stop.begin_us, stop.end_us)})
    shares = (
        (begin, end, [s.share for s in spans if s.begin_us <= begin and end <= s.end_us])
        for begin, end in pairwise(edges)
    )
    return Stops([Stop(begin, end, max(found)) for begin, end, found in shares if found])


def stopped_spans(run: RunRow, rows: Iterable[RankRow]) -> list[tuple[int, int]]:
    """Return when ranks of any attempt were held up, in microseconds of the run's time."""
    spans = [(stop.begin_us, stop.end_us) for row in rows for stop in _noticed(row)]
    for injected in run.injected:
        fault = Fault.parse(injected.fault)
        if fault.kind in _LASTING and injected.at is not None and not injected.problem:
            begin_us = whole_us(injected.at)
            lasts_us = _NEVER_US if fault.seconds is None else whole_us(fault.seconds)
            spans.append((begin_us, begin_us + lasts_us))
    return spans


def _stop(
    injected: InjectedFault, rows: Sequence[RankRow], lives: Mapping[str, Sequence[Life]]
) -> Iterator[Stop]:
    """Yield the span of a fault that was carried out in the attempt of some ranks."""
    row = next((row for row in rows if row.rank == injected.rank), None)
    fault = Fault.parse(injected.fault)
    if row is None or injected.at is None or injected.problem or injected.attempt != row.attempt:
        return
    life = next((life for life in lives[str(row.ranks[0])] if life.key == (row.attempt, 0)), None)
    if fault.kind not in _LASTING or life is None or not life.has_clock:
        return
    begin_us = whole_us(injected.at)
    end_us = life.last_us if fault.seconds is None else begin_us + whole_us(fault.seconds)
    end_us = min(end_us, life.last_us)
    if begin_us < end_us:
        share = 1.0 if fault.kind == "stop" else _slowdown(life, begin_us, end_us)
        yield Stop(begin_us, end_us, share)


def _noticed(row: RankRow) -> Iterator[Stop]:
    """Yield the stops of a rank that its agent noticed."""
    for begin, end in row.disturbance.stopped if row.disturbance else ():
        yield Stop(whole_us(begin - row.clock_ahead), whole_us(end - row.clock_ahead), 1.0)


def _slowdown(life: Life, begin_us: int, end_us: int) -> float:
    """Return by which share a process had fewer samples a second within a span than outside."""

    def inside(metric: str) -> float:
        return life.at(metric, end_us) - life.at(metric, max(begin_us, life.trains_us))

    samples, seconds = inside(names.SAMPLES), inside(names.TRAIN_SECONDS)
    others = life.in_training(names.SAMPLES, life.last_us) - samples
    rest = life.in_training(names.TRAIN_SECONDS, life.last_us) - seconds
    if seconds <= 0 or rest <= 0 or others <= 0:
        return 0.0
    return min(1.0, max(0.0, 1.0 - samples / seconds / (others / rest)))
