"""Records of sweeps: layout, charts, frontier, and the analysis of a benchmark set."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlbench.contract.records import GroupMean, Record


@dataclass(frozen=True)
class Axis(Record):
    """An axis of a sweep: a swept option, or the number of workers."""

    key: str
    """Name of the swept option, or ``workers``."""
    unit: str
    """Unit of the values if they are plain numbers; otherwise empty."""
    values: tuple[str, ...]
    """Values as they were written: ascending if all are numbers, else in their original order."""
    numbers: tuple[float, ...] | None
    """Values as numbers in ``unit``; None if a value is not a number."""
    is_wide: bool
    """Whether to draw a logarithmic axis: the last number is at least 8 times the first."""

    @property
    def title(self) -> str:
        """Key with its unit, such as ``bandwidth [Mbit/s]``."""
        return f"{self.key} [{self.unit}]" if self.unit else self.key


@dataclass(frozen=True)
class Panel(Record):
    """A panel of a sweep: groups that differ in at most two axes."""

    label: str
    """Values that the panel's groups share, such as ``2 workers``; empty for a single panel."""
    cells: tuple[tuple[int | None, ...], ...]
    """Positions in ``groups``: a row per value of ``by``, a column per value of ``across``.

    None for a combination without a group.
    """


@dataclass(frozen=True)
class Cell(Record):
    """A cell of a chart: a figure of a group."""

    mean: float
    """Mean of the figure over the group's runs."""
    low: float | None
    """Lower end of the mean's 95 % confidence interval; None if unknown."""
    high: float | None
    """Upper end of the mean's 95 % confidence interval; None if unknown."""
    heat: int
    """Color level, from 0 (worst of the chart) to 6 (best)."""


@dataclass(frozen=True)
class Chart(Record):
    """A chart of a figure for the groups of a panel."""

    title: str
    """Title, such as ``Throughput by bandwidth and exchange, 2 workers``."""
    axis: str
    """Label of the figure's axis."""
    unit: str
    """Unit of the figure."""
    is_wide: bool
    """Whether to draw a logarithmic axis for the figure."""
    cells: tuple[tuple[Cell | None, ...], ...]
    """Figures of the groups: a row per value of ``by``, a column per value of ``across``.

    None for a group without the figure.
    """
    panel: int = 0
    """Position in ``panels`` of the panel that the chart shows, from 0."""


@dataclass(frozen=True)
class Sweep(Record):
    """The layout of a sweep's groups in panels and charts."""

    across: Axis
    """Axis of the columns."""
    by: Axis | None
    """Axis of the rows; None for a sweep of a single axis, which has one row."""
    panels: tuple[Panel, ...]
    """Panels of the sweep, one for each combination of the remaining axes' values."""
    text: str = ""
    """Number of groups that differ from their baseline, in a sentence; empty for few groups."""
    charts: tuple[Chart, ...] = ()
    """Charts of the time to target, then of the throughput, one per panel."""


@dataclass(frozen=True)
class Crossing(Record):
    """The bandwidth above which one algorithm is faster than another."""

    where: str
    """Other settings of both algorithms, such as ``2 workers``."""
    below: str
    """Algorithm that is faster below the bandwidth."""
    above: str
    """Algorithm that is faster above the bandwidth."""
    bandwidth: float
    """Bandwidth of the crossing, in Mbit/s.

    Interpolated between two measured bandwidths, with logarithmic time and bandwidth.
    """
    low: float | None
    """Lower end of the bandwidth's 95 % confidence interval, in Mbit/s.

    None if it may be outside of the measured range, or for fewer than three runs.
    """
    high: float | None
    """Upper end of the bandwidth's 95 % confidence interval, in Mbit/s.

    None if it may be outside of the measured range, or for fewer than three runs.
    """
    on_frontier: bool
    """Whether no other algorithm is faster than these two at the crossing."""
    text: str
    """Summary in words."""


@dataclass(frozen=True)
class PerformanceProfile(Record):
    """The performance profile of an algorithm: its time relative to the fastest, per workload."""

    algorithm: str
    """Name of the algorithm."""
    ratios: tuple[float | None, ...]
    """Median time divided by the fastest algorithm's, for each workload in ascending order.

    None for a workload on which half of the runs or more missed the target.
    """
    score: float
    """AlgoPerf's score, from 0 to 1.

    The share of workloads on which the algorithm takes at most τ times as long as the fastest one,
    averaged over τ from 1 to 4.
    """

    def share(self, times: float) -> float:
        """Return the share of workloads with a ratio of at most ``times``, from 0 to 1."""
        within = sum(ratio is not None and ratio <= times for ratio in self.ratios)
        return within / len(self.ratios)


@dataclass(frozen=True)
class Frontier(Record):
    """The fastest algorithms by bandwidth."""

    crossings: tuple[Crossing, ...]
    """Crossings, ordered by the other settings, then by bandwidth."""
    profiles: tuple[PerformanceProfile, ...]
    """Performance profile of each algorithm, in the order of the runs.

    A workload is a number of workers with a bandwidth.
    """


@dataclass(frozen=True)
class SetPoint(Record):
    """A run that counts in a benchmark set."""

    run_id: int
    name: str
    """Swept values and number of workers, such as ``exchange flat, 2 workers``."""
    values: tuple[str, ...]
    """Value of the run on each axis."""
    figure: float | None
    """Figure of the run; None if unknown, or if it is a time and the run missed its target."""


@dataclass(frozen=True)
class Importance(Record):
    """The correlation of the figure with a swept option: the option's importance."""

    key: str
    """Name of the swept option."""
    value: str
    """Value that is compared with all other values; empty for an option with numbers."""
    correlation: float
    """Spearman's rank correlation, from -1 to 1; positive if the figure grows with the value."""
    low: float | None
    """Lower end of the correlation's 95 % confidence interval; None for fewer than five runs."""
    high: float | None
    """Upper end of the correlation's 95 % confidence interval; None for fewer than five runs."""
    runs: int
    """Number of runs that the correlation is based on."""


@dataclass(frozen=True)
class LastValues(Record):
    """The last values of the metrics of a combination: of runs with equal swept values."""

    name: str
    """Swept values and number of workers, such as ``lr 0.05, 2 workers``."""
    runs: int
    """Number of runs that count."""
    means: Mapping[str, GroupMean]
    """Mean of the last value of each metric."""


@dataclass(frozen=True)
class SetAnalysis(Record):
    """The analysis of a benchmark set: importance of the swept options, and remaining work."""

    measure: str
    """Name of the figure: time to target (training), or throughput if no run reached its target."""
    unit: str
    """Unit of the figure."""
    is_less_better: bool
    """Whether lower figures are better."""
    axes: tuple[Axis, ...]
    """Axes in which the slots differ: swept options, and the number of workers."""
    points: tuple[SetPoint, ...]
    """Runs that count, in the order of the slots."""
    importances: tuple[Importance, ...]
    """Correlations with the figure, strongest first."""
    text: str
    """Most important option in a sentence, or the reason why it is unknown."""
    slots_left: int
    """Number of slots that have an active run or will still get a run."""
    seconds_left: float | None
    """Estimated time for the remaining slots, in seconds; None until a run has finished."""
    last_values: tuple[LastValues, ...] = ()
    """Last values of the metrics by combination, in the order of the slots.

    Only of runs without a target; metrics that MLBench records by itself are left out.
    """
