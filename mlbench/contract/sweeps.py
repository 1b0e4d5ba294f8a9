"""The records of sweeps: how they are drawn, their frontier, and what sets of runs have shown."""

from dataclasses import dataclass

from mlbench.contract.records import Record


@dataclass(frozen=True)
class Axis(Record):
    """Something that a sweep varies: a key, or the number of workers."""

    key: str
    unit: str
    """Of its values, where they are plain numbers; else empty."""
    values: tuple[str, ...]
    """As they were given: ascending if all are numbers, else in the order in which they came."""
    numbers: tuple[float, ...] | None
    """The same as numbers, in `unit`; None if one is none."""
    is_wide: bool
    """Whether a logarithmic axis suits the numbers: the last is at least 8 times the first."""

    @property
    def title(self) -> str:
        """The key with its unit, such as ``bandwidth [Mbit/s]``."""
        return f"{self.key} [{self.unit}]" if self.unit else self.key


@dataclass(frozen=True)
class Panel(Record):
    """Groups of a sweep that differ in two things at most."""

    label: str
    """What they have in common, such as ``2 workers``; empty if that is the case of all groups."""
    cells: tuple[tuple[int | None, ...], ...]
    """Positions in `groups`: a row for each value of `by`, a column for each one of `across`."""


@dataclass(frozen=True)
class Cell(Record):
    """A figure of a group of a sweep."""

    mean: float
    low: float | None
    """The mean is between this and the next, with 95 % confidence; None where that is not known."""
    high: float | None
    heat: int
    """From 0, the worst of the chart, to 6, the best."""


@dataclass(frozen=True)
class Chart(Record):
    """A figure of the groups of a panel."""

    title: str
    """Such as ``Throughput by bandwidth and exchange, 2 workers``."""
    axis: str
    unit: str
    is_wide: bool
    """Whether a logarithmic axis suits the figures."""
    cells: tuple[tuple[Cell | None, ...], ...]
    """A row for each value of `by`, a column for each one of `across`; None: no such figure."""


@dataclass(frozen=True)
class Sweep(Record):
    """How the groups of a sweep are laid out to be seen."""

    across: Axis
    by: Axis | None
    """None if nothing else is varied: there is one row."""
    panels: tuple[Panel, ...]
    text: str = ""
    """How many groups differ from their baseline; empty for a few groups."""
    charts: tuple[Chart, ...] = ()
    """What there is to see: time to accuracy, then throughput, each by panel."""


@dataclass(frozen=True)
class Crossing(Record):
    """The bandwidth from which on one algorithm is faster than another."""

    where: str
    """What both had besides, such as ``2 workers``."""
    below: str
    """The algorithm that is faster at less bandwidth."""
    above: str
    """The one that is faster at more."""
    bandwidth: float
    """Mbit/s, interpolated between two measured bandwidths: the logarithm of the time over that of
    the bandwidth."""
    low: float | None
    """It is between this and the next, with 95 % confidence.

    None where it may be outside of what was measured, or where there are fewer than three runs.
    """
    high: float | None
    on_frontier: bool
    """Whether the two are the fastest of all there."""
    text: str
    """The same in words."""


@dataclass(frozen=True)
class Profile(Record):
    """How close an algorithm comes to the fastest one, over all workloads."""

    algorithm: str
    ratios: tuple[float | None, ...]
    """Its median time by that of the fastest, on each workload, the least first.

    None where half of its runs or more did not reach the goal.
    """
    score: float
    """AlgoPerf's: the share of workloads on which it takes at most τ times as long as the fastest,
    as the mean over τ from 1 to 4."""

    def share(self, times: float) -> float:
        """Return the share of workloads on which it takes at most so many times as long."""
        within = sum(ratio is not None and ratio <= times for ratio in self.ratios)
        return within / len(self.ratios)


@dataclass(frozen=True)
class Frontier(Record):
    """Which algorithm is how fast, by bandwidth."""

    crossings: tuple[Crossing, ...]
    """By what both had besides, and bandwidth."""
    profiles: tuple[Profile, ...]
    """In the order of the runs. A workload is a number of workers with what they may send."""


@dataclass(frozen=True)
class SetPoint(Record):
    """A run of a set that counts."""

    run_id: int
    name: str
    """What it has of what the set sweeps, and its workers: ``exchange flat, 2 workers``."""
    values: tuple[str, ...]
    """On each of the axes."""
    figure: float | None
    """None if it is not known; of a time, if the run has not reached its goal."""


@dataclass(frozen=True)
class Effect(Record):
    """How strongly the figure goes with what a set sweeps."""

    key: str
    value: str
    """Of values without an order, that which is held against all others; empty for numbers."""
    correlation: float
    """Spearman's, from -1 to 1: above 0, the figure is higher where the value is."""
    low: float | None
    """The true one lies between this and the next with 95 %; None for fewer than five runs."""
    high: float | None
    runs: int


@dataclass(frozen=True)
class SetAnalysis(Record):
    """How the runs of a set did over what it sweeps, and what is left of the set."""

    measure: str
    """What the figures are: the training time to the goal, or the throughput if none reached it."""
    unit: str
    is_less_better: bool
    axes: tuple[Axis, ...]
    """What differs among the places: what is swept, and the workers."""
    points: tuple[SetPoint, ...]
    """In the order of the places."""
    effects: tuple[Effect, ...]
    """The strongest first."""
    text: str
    """What matters most, as far as that can be told."""
    places_left: int
    """Those that want a run, or have one that goes on."""
    seconds_left: float | None
    """How long these take, by what the others took; None while none has finished."""
