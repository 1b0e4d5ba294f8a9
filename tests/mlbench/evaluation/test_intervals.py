"""Intervals cover what they are said to cover, as simulated runs tell."""

import math
from random import Random

import pytest
import scipy  # its parts are loaded when they are used

from mlbench.evaluation.statistics import (
    LOOKED_AT,
    Interval,
    of_any_mean,
    of_mean,
    of_ratio,
    t_quantile,
)
from mlbench.evaluation.sweeps import Timed, Workload, crossings
from tests.support.known import known

_SETS = 3000


def lognormal(random: Random, mean: float, cv: float) -> float:
    """Draw a time with this mean and coefficient of variation."""
    spread = math.sqrt(math.log(1 + cv**2))
    return mean * math.exp(random.gauss(-(spread**2) / 2, spread))


@pytest.mark.parametrize("cv", [0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("runs", [3, 4, 5, 6, 8, 10, 20])
def test_95_percent_of_intervals_cover_the_mean(runs: int, cv: float) -> None:
    random, covered = Random(runs), 0  # noqa: S311 - no secret
    for _ in range(_SETS):
        low, high = of_mean([lognormal(random, 100.0, cv) for _ in range(runs)])
        covered += known(low) <= 100.0 <= known(high)
    assert 0.94 <= covered / _SETS <= 0.96


@pytest.mark.parametrize("runs", [3, 5, 20])
def test_95_percent_cover_the_mean_of_figures_that_are_no_times(runs: int) -> None:
    """Groups of any runs: figures from -1 to 3, all of them equally likely."""
    random, covered = Random(runs), 0  # noqa: S311 - no secret
    for _ in range(_SETS):
        low, high = of_any_mean([random.uniform(-1, 3) for _ in range(runs)])
        covered += known(low) <= 1.0 <= known(high)
    assert 0.92 <= covered / _SETS <= 0.96


def _width(found: Interval) -> float:
    return (found[1] or math.inf) - (found[0] or 0.0)


@pytest.mark.parametrize("cv", [0.05, 0.1, 0.15, 0.3])
def test_95_percent_are_covered_though_each_run_is_looked_at(cv: float) -> None:
    """A set that stops as soon as its mean is known to within 5 %, from five runs to twenty."""
    random, covered = Random(1), 0  # noqa: S311 - no secret
    for _ in range(_SETS):
        times = [lognormal(random, 100.0, cv) for _ in range(4)]
        interval: Interval = (0.0, math.inf)
        while len(times) < 20 and _width(interval) > 0.1 * sum(times) / len(times):
            times.append(lognormal(random, 100.0, cv))
            interval = of_mean(times, LOOKED_AT)
        covered += (interval[0] or 0.0) <= 100.0 <= (interval[1] or 0.0)
    assert covered / _SETS >= 0.95


@pytest.mark.parametrize("runs", [3, 5, 20])
@pytest.mark.parametrize("cvs", [(0.05, 0.05), (0.1, 0.3), (0.3, 0.3)])
def test_95_percent_of_speed_ups_are_in_their_interval(runs: int, cvs: tuple[float, float]) -> None:
    random, covered = Random(runs), 0  # noqa: S311 - no secret
    for _ in range(_SETS):
        one, two = (
            [lognormal(random, mean, cv) for _ in range(runs)]
            for mean, cv in zip((100.0, 60.0), cvs, strict=True)
        )
        low, high = of_ratio(one, two)
        covered += known(low) <= 100 / 60 <= known(high)
    assert covered / _SETS >= 0.94


@pytest.mark.parametrize("runs", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_95_percent_of_crossings_are_in_their_interval(runs: int) -> None:
    random, count, covered = Random(runs), 0, 0  # noqa: S311 - no secret
    # Equal at 20 Mbit/s.
    lines = {"small": {5: 10.0, 80: 10.0}, "large": {5: 40.0, 80: 2.5}}
    for _ in range(300):
        timed = [
            Timed(name, Workload("", mbit), lognormal(random, mean, 0.1))
            for name, line in lines.items()
            for mbit, mean in line.items()
            for _ in range(runs)
        ]
        for crossing in crossings(timed):
            count += 1
            covered += (crossing.low or 0.0) <= 20.0 <= (crossing.high or math.inf)
    assert count == 300
    assert covered / count >= 0.94


def test_figures_that_may_be_negative_have_an_interval_too() -> None:
    assert of_mean([-1.0, 0.0, 1.0]) == pytest.approx((-4.3027 / 3**0.5, 4.3027 / 3**0.5), rel=1e-4)


def test_a_run_that_did_not_reach_its_goal_leaves_no_upper_end() -> None:
    low, high = of_mean([10.0, 11.0, math.inf])
    assert (low is not None, high) == (True, None)
    assert of_mean([10.0, math.inf]) == (None, None)


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 26])
def test_quantiles_are_those_of_scipy(freedom: int) -> None:
    for probability in (0.6, 0.95, 0.99):
        assert t_quantile(probability, freedom) == pytest.approx(
            scipy.stats.t.ppf(probability, freedom)
        )
