"""The plots: which there are, and what their drawings say."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mlbench.contract.comparisons import Comparison
from mlbench.contract.results import Result
from mlbench.report.drawing import FAINT, INK, SERIES, Plot
from mlbench.report.plots import plots
from tests.support.known import known
from tests.support.results import (
    METRIC,
    make_aimless,
    make_comparison,
    make_matrix,
    make_result,
    make_sweep,
    make_unreached,
)


def drawn(comparison: Comparison) -> dict[str, Plot]:
    return {plot.title: plot for plot in plots(comparison)}


@pytest.fixture(scope="module")
def matrix() -> dict[str, Plot]:
    return drawn(make_matrix((1, 2, 4), 5))


def texts(plot: Plot) -> list[str]:
    """Return the texts of a drawing."""
    root = ElementTree.fromstring(plot.svg)  # noqa: S314 - our own drawing
    return [element.text or "" for element in root.iter() if element.tag.endswith("text")]


def test_a_set_has_every_plot(matrix: dict[str, Plot]) -> None:
    metric, reached, speedup, phases = matrix.values()
    assert [*matrix] == [
        f"{METRIC} over training time",
        "Time to target",
        "Speed-up",
        "Time breakdown",
    ]
    expected = {"1 worker", "2 workers", "4 workers", "training time [s]", METRIC, "97"}
    assert expected <= {*texts(metric)}
    assert {"1", "2", "4", "workers", "training time to the target [s]"} <= {*texts(reached)}
    assert {"ideal", "time to target", "throughput"} <= {*texts(speedup)}
    assert {"communication", "other", "9.94 s", "time [s]"} <= {*texts(phases)}


@pytest.mark.parametrize(
    ("results", "titles"),
    [
        (
            [make_unreached(1), make_unreached(2, repeat=2)],
            [f"{METRIC} over training time", "Time breakdown"],
        ),
        ([make_aimless(1), make_aimless(2, 2)], ["Speed-up", "Time breakdown"]),
        ([replace(make_aimless(1), phases={})], []),
    ],
)
def test_a_plot_without_figures_is_left_out(results: list[Result], titles: list[str]) -> None:
    assert [*drawn(make_comparison(results))] == titles


def test_without_training_time_the_wall_clock_is_plotted() -> None:
    result = make_result(1)
    curve = known(result.curve)
    unknown = replace(curve, training_seconds=(None,) * len(curve.values))
    comparison = make_comparison([replace(result, curve=unknown), make_result(2, 2)])
    plot = plots(comparison)[0]
    assert plot.title == f"{METRIC} over time since the start"
    assert "time since the start [s]" in texts(plot)


def test_groups_with_as_many_workers_are_told_apart_by_the_end_of_their_labels() -> None:
    comparison = make_matrix((1, 2), 2)
    long = "2 workers, command /home/someone/venv/bin/python /home/someone/train.py --rate"
    groups = tuple(
        replace(group, num_workers=2, label=f"{long} {rate}")
        for group, rate in zip(comparison.groups, ("0.1", "0.2"), strict=True)
    )
    figures = drawn(replace(comparison, groups=groups))
    assert "Speed-up" not in figures
    for plot in figures.values():
        for rate in ("0.1", "0.2"):
            assert sum(text.endswith(f"--rate {rate}") for text in texts(plot)) == 1, plot.title


@pytest.mark.parametrize("metric", ["\N{ROCKET}准确率", "<b>&$x^2$"])
def test_any_name_of_a_metric_is_drawn_as_it_is(
    metric: str, recwarn: pytest.WarningsRecorder
) -> None:
    result = make_result(1)
    odd = replace(result, target=replace(known(result.target), metric=metric))
    assert metric in texts(plots(make_comparison([odd]))[0])
    assert [*recwarn] == []


def test_a_drawing_takes_its_colours_from_the_page_and_loads_nothing(
    matrix: dict[str, Plot],
) -> None:
    for plot in matrix.values():
        for stand_in in (INK, FAINT, *SERIES):
            assert stand_in not in plot.svg
        assert "currentColor" in plot.svg
        addresses = {*re.findall(r'https?://[^"\s]+', plot.svg)}
        assert addresses == {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}


def test_the_drawings_of_a_page_do_not_share_ids(matrix: dict[str, Plot]) -> None:
    svg = "".join(plot.svg for plot in matrix.values())
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len({*ids})
    linked = {*re.findall(r'(?:href="|url\()#([^")]+)', svg)}
    assert linked
    assert linked <= {*ids}


def test_a_sweep_is_plotted_over_its_numbers_with_a_line_for_each_other_value() -> None:
    found = drawn(make_sweep((2,), 3))
    times = found["Time to target by bandwidth and exchange"]
    expected = {"bandwidth [Mbit/s]", "5", "20", "100", "exchange", "flat", "topk"}
    assert expected | {"time to target (training) [s]"} <= {*texts(times)}
    rates = found["Throughput by bandwidth and exchange"]
    assert expected | {"throughput [samples/s]"} <= {*texts(rates)}
    assert {"flat", "topk", "share of workloads"} <= {*texts(found["Performance profiles"])}
