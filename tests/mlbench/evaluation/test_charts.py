"""The charts of a sweep: which there are, and how good each figure is beside the others."""

from dataclasses import replace

import pytest

from mlbench.contract.sweeps import Cell, Chart
from mlbench.evaluation.sweeps import charts
from tests.support.known import known
from tests.support.results import make_sweep

_SWEEP = make_sweep()


def drawn(*means: float | None) -> list[Chart]:
    """Return the charts of two exchanges over three bandwidths with these throughputs alone."""
    groups = []
    for group, mean in zip(_SWEEP.groups, means, strict=True):
        rate = replace(known(group.samples_per_second), mean=mean)
        found = replace(group, samples_per_second=rate, training_seconds_to_accuracy=None)
        groups.append(found)
    return [*charts(known(_SWEEP.sweep), groups)]


def test_each_measure_has_a_chart_with_figures_and_their_intervals() -> None:
    times, rates = known(_SWEEP.sweep).charts
    assert times.title == "Time to accuracy by bandwidth and exchange"
    assert (rates.axis, rates.unit) == ("throughput [samples/s]", "samples/s")
    summary = known(_SWEEP.groups[0].training_seconds_to_accuracy)
    assert times.cells[0][0] == Cell(known(summary.mean), summary.mean_low, summary.mean_high, 0)


@pytest.mark.parametrize(
    ("means", "is_wide", "heat"),
    [
        ((10, 20, None, 40, 70, None), False, [[0, 1, None], [3, 6, None]]),
        # Far ones by their logarithms.
        ((1, 10, None, 100, 1000, 1e6), True, [[0, 1, None], [2, 3, 6]]),
        ((5, 5, 5, 5, 5, float("nan")), False, [[0, 0, 0], [0, 0, None]]),
    ],
)
def test_the_best_figure_is_the_darkest(
    means: tuple[float, ...], is_wide: bool, heat: list[list[int | None]]
) -> None:
    [chart] = drawn(*means)
    assert chart.is_wide == is_wide
    assert [[cell and cell.heat for cell in row] for row in chart.cells] == heat


def test_there_is_no_chart_without_figures() -> None:
    assert drawn(*[None] * 6) == []
