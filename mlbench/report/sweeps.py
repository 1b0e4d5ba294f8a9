"""What the tables and plots of a sweep show: its measures, and how they are coloured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlbench import palette
from mlbench.report import figures
from mlbench.results import Axis, Comparison, Group, Panel, Sweep

# From this ratio of the largest to the smallest on, values are told apart by their logarithms.
_WIDE = 8


@dataclass(frozen=True)
class Point:
    """A figure of a group: its mean, and the interval that this is in."""

    mean: float
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """The mean and its interval."""
        if self.low is None or self.high is None:
            return figures.number(self.mean)
        interval = f"{figures.number(self.low)} to {figures.number(self.high)}"
        return f"{figures.number(self.mean)} ({interval})"

    @property
    def below(self) -> float:
        """How far the interval reaches below the mean; 0 where there is none."""
        return 0.0 if self.low is None else self.mean - self.low

    @property
    def above(self) -> float:
        """How far it reaches above."""
        return 0.0 if self.high is None else self.high - self.mean


@dataclass(frozen=True)
class Measure:
    """A figure by which the groups of a sweep are shown."""

    title: str
    axis: str
    unit: str
    of: Callable[[Group], Point | None]
    is_less_better: bool


def _point(name: str) -> Callable[[Group], Point | None]:
    def of(group: Group) -> Point | None:
        found = getattr(group, name)
        if found is None or found.mean is None:
            return None
        return Point(found.mean, found.mean_low, found.mean_high)

    return of


_MEASURES = (
    Measure(
        "Time to accuracy",
        "training time to the goal [s]",
        "s",
        _point("training_seconds_to_accuracy"),
        is_less_better=True,
    ),
    Measure(
        "Throughput",
        "throughput [samples/s]",
        "samples/s",
        _point("samples_per_second"),
        is_less_better=False,
    ),
)


@dataclass(frozen=True)
class Chart:
    """A measure of the groups of a panel."""

    measure: Measure
    across: Axis
    by: Axis | None
    label: str
    """What the groups have in common; may be empty."""
    groups: tuple[tuple[Group | None, ...], ...]
    """A row for each value of ``by``, a column for each of ``across``."""

    @property
    def title(self) -> str:
        """Such as ``Throughput by bandwidth and exchange, 2 workers``."""
        keys = " and ".join([self.across.key, *([self.by.key] if self.by else [])])
        return ", ".join(filter(None, [f"{self.measure.title} by {keys}", self.label]))

    @property
    def points(self) -> list[list[Point | None]]:
        """The figures, as the groups."""
        return [[self.measure.of(one) if one else None for one in row] for row in self.groups]

    @property
    def is_wide(self) -> bool:
        """Whether the figures are told apart by their logarithms."""
        means = [point.mean for row in self.points for point in row if point]
        return 0 < min(means, default=0.0) <= max(means, default=0.0) / _WIDE

    @property
    def heat(self) -> tuple[tuple[int | None, ...], ...]:
        """The colour of each figure, as its position in the palette: the better, the later."""
        height = math.log if self.is_wide else float
        rows = [[height(one.mean) if one else None for one in row] for row in self.points]
        known = [value for row in rows for value in row if value is not None]
        worst, best = min(known, default=0.0), max(known, default=0.0)
        if self.measure.is_less_better:
            worst, best = best, worst
        last = len(palette.HEAT) - 1
        apart = best - worst or math.inf
        return tuple(
            tuple(v if v is None else round(last * (v - worst) / apart) for v in row)
            for row in rows
        )


def charts(comparison: Comparison) -> list[Chart]:
    """Return what a comparison's sweep can show, if it has one."""
    sweep = comparison.sweep
    if sweep is None:
        return []
    found = [
        _chart(measure, sweep, panel, comparison.groups)
        for measure in _MEASURES
        for panel in sweep.panels
    ]
    return [chart for chart in found if any(point for row in chart.points for point in row)]


def _chart(measure: Measure, sweep: Sweep, panel: Panel, groups: Sequence[Group]) -> Chart:
    rows = tuple(tuple(None if i is None else groups[i] for i in row) for row in panel.cells)
    return Chart(measure, sweep.across, sweep.by, panel.label, rows)


def axis_title(axis: Axis) -> str:
    """Return a key with its unit, such as ``bandwidth [Mbit/s]``."""
    return f"{axis.key} [{axis.unit}]" if axis.unit else axis.key
