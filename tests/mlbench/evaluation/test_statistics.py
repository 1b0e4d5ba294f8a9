"""Summaries, worked out by hand."""

import math

import pytest

from mlbench.contract.results import Summary
from mlbench.evaluation.statistics import of_figures, of_mean, of_times
from tests.support.known import known


def test_the_mean_is_that_of_all_runs() -> None:
    found = known(of_times([10.0, 14.0, 11.0, 30.0, 12.0]))
    assert found.mean == pytest.approx(15.4)
    # Deviations from 15.4: 5.4, 1.4, 4.4, 14.6, 3.4.
    variance = (29.16 + 1.96 + 19.36 + 213.16 + 11.56) / 4
    assert found.standard_deviation == pytest.approx(math.sqrt(variance))
    assert (found.count, found.median) == (5, 12.0)
    assert (found.minimum, found.maximum) == (10.0, 30.0)


def test_a_run_that_did_not_reach_leaves_no_mean_and_is_the_slowest() -> None:
    found = known(of_times([10.0, None, 14.0]))
    assert (found.count, found.mean, found.mean_low, found.mean_high) == (2, None, None, None)
    assert (found.minimum, found.median, found.maximum) == (10.0, 14.0, 14.0)


def test_two_of_three_that_did_not_reach_leave_no_mean() -> None:
    found = known(of_times([None, 10.0, None]))
    assert (found.count, found.mean) == (1, None)
    assert (found.median, found.standard_deviation) == (None, None)


@pytest.mark.parametrize("huge", [1.6e308, -1.6e308])
def test_sums_too_large_for_a_float_have_neither_mean_nor_spread(huge: float) -> None:
    found = known(of_figures([1.6e308, huge]))
    assert (found.minimum, found.maximum) == (min(huge, 1.6e308), 1.6e308)
    assert not (math.isfinite(found.mean or 0.0) and math.isfinite(found.standard_deviation or 0.0))


def test_a_figure_that_no_run_has_has_no_summary() -> None:
    assert of_times([None, None]) is None
    assert of_times([]) is None
    assert of_figures([None, math.nan]) is None


def test_of_a_figure_those_without_it_are_passed_over() -> None:
    found = of_figures([None, 3.0, math.nan, 1.0, 2.0, math.inf])
    assert found == of_figures([1.0, 2.0, 3.0])
    low, high = of_mean([1.0, 2.0, 3.0])
    assert found == Summary(3, 2.0, low, high, 2.0, 1.0, 3.0, 1.0)


def test_a_mean_of_three_runs_and_more_has_an_interval() -> None:
    found = known(of_figures([10.0, 10.4, 9.8, 10.2, 10.1, 9.9]))
    assert 9.8 < known(found.mean_low) < known(found.mean) < known(found.mean_high) < 10.4
    two = known(of_figures([1.0, 2.0]))
    assert (two.mean, two.mean_low, two.mean_high) == (1.5, None, None)
