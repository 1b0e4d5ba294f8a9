"""What there is to see of a sweep: its figures, and how good each is beside the others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlbench.contract import palette
from mlbench.contract.comparisons import Group
from mlbench.contract.results import Summary
from mlbench.contract.sweeps import Cell, Chart, Panel, Sweep
from mlbench.evaluation.sweeps import is_wide_range


@dataclass(frozen=True)
class Measure:
    """A figure by which what is swept is judged."""

    title: str
    name: str
    unit: str
    field: str
    """Of a group."""
    is_less_better: bool


TIME = Measure(
    "Time to accuracy", "training time to the goal", "s", "training_seconds_to_accuracy", True
)
RATE = Measure("Throughput", "throughput", "samples/s", "samples_per_second", False)


def charts(sweep: Sweep, groups: Sequence[Group]) -> tuple[Chart, ...]:
    """Return the charts of a sweep's groups that have any figure."""
    found = (
        _chart(measure, sweep, panel, groups) for measure in (TIME, RATE) for panel in sweep.panels
    )
    return tuple(chart for chart in found if any(any(row) for row in chart.cells))


def _chart(measure: Measure, sweep: Sweep, panel: Panel, groups: Sequence[Group]) -> Chart:
    keys = " and ".join([sweep.across.key, *([sweep.by.key] if sweep.by else [])])
    rows = [
        [None if i is None else _known(getattr(groups[i], measure.field)) for i in row]
        for row in panel.cells
    ]
    means = [figure.mean or 0.0 for row in rows for figure in row if figure]
    least, most = min(means, default=0.0), max(means, default=0.0)
    is_wide = is_wide_range(least, most)
    worst, best = (most, least) if measure.is_less_better else (least, most)

    def cell(figure: Summary) -> Cell:
        mean = figure.mean or 0.0
        values = (mean, worst, best)
        height, low, high = map(math.log, values) if is_wide else values
        heat = round((len(palette.HEAT) - 1) * (height - low) / (high - low or math.inf))
        return Cell(mean, figure.mean_low, figure.mean_high, heat)

    return Chart(
        ", ".join(filter(None, [f"{measure.title} by {keys}", panel.label])),
        f"{measure.name} [{measure.unit}]",
        measure.unit,
        is_wide,
        tuple(tuple(cell(figure) if figure else None for figure in row) for row in rows),
    )


def _known(figure: Summary | None) -> Summary | None:
    return figure if figure and figure.mean is not None and math.isfinite(figure.mean) else None
