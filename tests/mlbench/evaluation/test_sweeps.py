"""Sweeps: baselines, panels, charts, and the remaining time of a benchmark set."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest

from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import RunSet, Slot, Trial
from mlbench.contract.sweeps import Axis, Cell, Chart, Panel, SetAnalysis, Sweep
from mlbench.evaluation import sweeps
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.official_rules import waiting_slots
from mlbench.evaluation.sweeps import (
    RunSummaryMetrics,
    SweepPoint,
    analyze,
    baseline,
    charts,
    fewest_workers,
    in_order,
    lay_out,
)
from tests.mlbench.evaluation.making import make_facts, reaching
from tests.support.known import known
from tests.support.results import make_sweep

SPOTS = [
    SweepPoint(workers, {"exchange": exchange, "bandwidth": bandwidth})
    for exchange, bandwidth in product(("flat", "topk"), ("20", "5"))
    for workers in (1, 2)
]


def test_points_are_ordered_by_first_occurrence_of_their_values() -> None:
    mixed = [SPOTS[i] for i in (1, 3, 5, 4, 0, 7, 6, 2)]
    assert [mixed[i] for i in in_order(mixed)] == SPOTS
    assert in_order([SweepPoint(2, {}), SweepPoint(1, {}), SweepPoint(2, {})]) == [1, 0, 2]


def test_each_point_differs_from_its_baseline_in_one_option() -> None:
    flat = [(i, "exchange flat") for i in range(4)]
    at_20 = [(0, "bandwidth 20"), (1, "bandwidth 20")]
    assert [baseline(SPOTS, i) for i in range(8)] == [(0, ""), (0, ""), *at_20, *flat]
    assert [fewest_workers(SPOTS, i) for i in range(8)] == [0, 0, 2, 2, 4, 4, 6, 6]
    holed = [point for point in SPOTS if point != SPOTS[2]]
    assert baseline(holed, 5) == (3, "bandwidth 20")


def test_network_limits_are_columns_and_other_options_are_rows_and_panels() -> None:
    assert lay_out(SPOTS[:-1]) == Sweep(
        Axis("bandwidth", "Mbit/s", ("5", "20"), (5.0, 20.0), is_wide=False),
        Axis("exchange", "", ("flat", "topk"), None, is_wide=False),
        (Panel("1 worker", ((2, 0), (6, 4))), Panel("2 workers", ((3, 1), (None, 5)))),
    )


def test_columns_are_other_numbers_or_else_names() -> None:
    pairs = product(("b", "a"), (1, 16))
    frameworks = [SweepPoint(workers, {"framework": name}) for name, workers in pairs]
    assert lay_out(frameworks) == Sweep(
        Axis("workers", "", ("1", "16"), (1.0, 16.0), is_wide=True),
        Axis("framework", "", ("b", "a"), None, is_wide=False),
        (Panel("", ((0, 1), (2, 3))),),
    )
    names = known(lay_out(frameworks[::2]))
    assert (names.across.values, names.by) == (("b", "a"), None)
    assert names.panels == (Panel("", ((0, 1),)),)
    latency = [SweepPoint(2, {"latency": text}) for text in ("5ms", "0ms", "none")]
    for points, numbers in ((latency[:2], (0.0, 5.0)), (latency, None)):
        sweep = known(lay_out(points))
        assert sweep.across.numbers == numbers
    assert lay_out(latency[:1]) is None
    assert lay_out([SweepPoint(1, {}), SweepPoint(2, {})]) is None


def compared(*swept: tuple[int, str, float], key: str = "exchange") -> Comparison:
    """Compare four runs per number of workers, swept value and approximate time."""
    runs, facts = [], {}
    for (i, (workers, value, seconds)), n in product(enumerate(swept), range(4)):
        run_id = 10 * i + n
        runs.append(reaching(run_id, workers, seconds + n, swept={key: value}))
        facts[run_id] = make_facts(workers, exchange=value, epochs="1", seed=str(n))
    return compare(runs, facts)


def test_speed_ups_and_tests_are_within_a_swept_value() -> None:
    comparison = compared((1, "flat", 100), (2, "flat", 50), (1, "topk", 200), (2, "topk", 49.5))
    assert comparison.differences == ()
    assert [(group.label, dict(group.swept)) for group in comparison.groups] == [
        (f"{workers}, exchange {exchange}", {"exchange": exchange})
        for exchange in ("flat", "topk")
        for workers in ("1 worker", "2 workers")
    ]
    speedups = [round(group.speedup or 0, 2) for group in comparison.groups]
    assert speedups == [1.0, 1.97, 1.0, 3.95]
    first, *others = [group.evidence for group in comparison.groups]
    assert first is None
    tests = [(known(test).baseline, known(test).than) for test in others]
    assert tests == [(0, "1 worker"), (0, "exchange flat"), (1, "exchange flat")]
    assert [round(known(known(test).times_faster), 2) for test in others] == [1.97, 0.5, 1.01]
    assert all(known(test).distinguishable for test in others)
    test = "p = 6.5e-07, paired t, corrected for 3 comparisons"
    pair = "1 worker, exchange topk differ from 1 worker, exchange flat"
    assert known(others[1]).text == f"{pair}: 0.504 times as fast ({test})"


def test_runs_without_a_common_sweep_are_compared_normally() -> None:
    other = reaching(99, 1, 100.0)
    swept = compared((1, "flat", 100), (1, "topk", 200))
    facts = {one.run_id: make_facts(1, exchange=one.swept["exchange"]) for one in swept.results}
    found = compare([*swept.results, other], facts | {99: make_facts(1, exchange="flat")})
    labels = ["1 worker, exchange flat", "1 worker, exchange topk"]
    assert [(group.label, group.swept) for group in found.groups] == [(text, {}) for text in labels]
    assert [difference.name for difference in found.differences] == ["exchange"]


_SWEEP = make_sweep()


def drawn(*means: float | None) -> list[Chart]:
    """Return the charts of two exchanges and three bandwidths with these throughputs only."""
    groups = []
    for group, mean in zip(_SWEEP.groups, means, strict=True):
        rate = replace(known(group.samples_per_second), mean=mean)
        groups.append(replace(group, samples_per_second=rate, training_seconds_to_target=None))
    return [*charts(known(_SWEEP.sweep), groups)]


def test_each_measure_has_a_chart_with_figures_and_their_intervals() -> None:
    times, rates = known(_SWEEP.sweep).charts
    assert (times.panel, rates.panel) == (0, 0)
    assert times.title == "Time to target by bandwidth and exchange"
    assert (rates.axis, rates.unit) == ("throughput [samples/s]", "samples/s")
    summary = known(_SWEEP.groups[0].training_seconds_to_target)
    assert times.cells[0][0] == Cell(known(summary.mean), summary.mean_low, summary.mean_high, 0)


@pytest.mark.parametrize(
    ("means", "is_wide", "heat"),
    [
        ((10, 20, None, 40, 70, None), False, [[0, 1, None], [3, 6, None]]),
        # Widely spread values are coloured by their logarithms.
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
    assert drawn(*[None] * 6) == [], "there is no chart without figures"


# Seconds to the target by exchange and bandwidth. The exchange matters more.
_SECONDS = dict(zip(product(("flat", "topk"), ("10", "100")), (90, 60, 30, 20.0), strict=True))


def made(
    seconds: Mapping[tuple[str, str], float],
    repeats: int = 4,
    done: int = 99,
    active_seconds: float | None = None,
    **losses: float,
) -> SetAnalysis:
    """Analyze a set with this number of repeats, in which the first slots are done.

    With ``active_seconds``, the next slot has had a run for that time.
    """
    places, figures = [], {}
    for number, (exchange, bandwidth) in enumerate([*seconds] * repeats, 1):
        trial = Trial(number, number, 1, "FINISHED", "", False, False, counts=True, remark="")
        swept = {"exchange": exchange, "bandwidth": bandwidth}
        trials = (trial,) if number <= done else ()
        is_active = number == done + 1 and active_seconds is not None
        if is_active:
            trials = (replace(trial, state="STARTED", counts=False, remark="running"),)
        places.append(Slot(number, f"r{number}", 2, 1, not trials, trials, swept))
        took = seconds[exchange, bandwidth] + number / 100
        last_values = {"loss": losses[exchange]} if losses else {}
        reached = took if took < math.inf else None
        wall = active_seconds if is_active else took + 10
        figures[number] = RunSummaryMetrics(reached, 100.0, wall, last_values=last_values)
    run_set = RunSet("s", "2026-01-01T00:00:00Z", False, None, {}, tuple(places), "")
    run_set = replace(run_set, waiting=waiting_slots(places, 0))
    return analyze(run_set, figures)


def test_points_have_their_values_on_the_axes_of_the_set() -> None:
    analysis = made(_SECONDS)
    assert analysis.measure == "time to target (training)"
    assert [axis.key for axis in analysis.axes] == ["exchange", "bandwidth"]
    assert analysis.points[2].name == "exchange topk, bandwidth 10, 2 workers"
    assert analysis.points[2].values == ("topk", "10")
    assert made(_SECONDS | {("flat", "10"): math.inf}).points[0].figure is None


def test_an_extension_calculates_the_importance_of_options(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = made(_SECONDS)
    assert [effect.key for effect in analysis.importances] == ["exchange", "bandwidth"]
    assert analysis.text == "exchange matters most"
    monkeypatch.setattr(sweeps, "sweep_analysis", lambda: None)
    assert (made(_SECONDS).importances, made(_SECONDS).text) == ((), "")
    assert make_sweep().frontier is None


def test_sets_without_a_target_have_the_last_values_of_each_combination() -> None:
    assert made(_SECONDS).last_values == ()
    analysis = made(_SECONDS, repeats=2, flat=0.5, topk=0.25)
    names = [f"exchange {exchange}, bandwidth {limit}, 2 workers" for exchange, limit in _SECONDS]
    found = [(values.name, values.runs) for values in analysis.last_values]
    assert found == [(name, 2) for name in names]
    [loss] = analysis.last_values[0].means.values()
    assert (loss.count, loss.mean, loss.low, loss.high) == (2, 0.5, 0.5, 0.5)


def test_the_remaining_time_is_estimated_from_similar_runs() -> None:
    found = made(_SECONDS, done=8)
    assert found.slots_left == 8
    assert found.seconds_left == pytest.approx(2 * (90 + 60 + 30 + 20 + 4 * 10), abs=1)
    assert made(_SECONDS).seconds_left == 0
    assert made(_SECONDS, done=0).seconds_left is None


@pytest.mark.parametrize(
    ("done", "elapsed", "left"),
    [
        (15, 10.0, 20.0),
        # Longer than similar runs, but shorter than the mean of all.
        (15, 50.0, 0.0),
        # Longer than the mean of all, but shorter than similar runs.
        (12, 80.0, 20.0 + 70.0 + 40.0 + 30.0),
    ],
)
def test_an_active_run_is_compared_with_similar_runs(
    done: int, elapsed: float, left: float
) -> None:
    found = made(_SECONDS, done=done, active_seconds=elapsed)
    assert found.seconds_left == pytest.approx(left, abs=1)
