"""Young's and Daly's formulas, against each other and against failures that are drawn."""

import math
from random import Random

import pytest

from mlbench.evaluation.goodput import Costs, best_interval, goodput, youngs_interval

_HOUR = 3600.0


def simulate(interval: float, costs: Costs, random: Random, segments: int) -> float:
    """Return the share of time that is kept, by drawing failures as they come."""
    wall, left, fails_in = 0.0, segments, random.expovariate(1 / costs.between)
    needed = interval + costs.checkpoint
    while left:
        if fails_in >= needed:
            wall, fails_in = wall + needed, fails_in - needed
            left -= 1
            needed = interval + costs.checkpoint
        else:
            wall += fails_in + costs.down
            fails_in = random.expovariate(1 / costs.between)
            needed = interval + costs.checkpoint + costs.restart
    return segments * interval / wall


@pytest.mark.parametrize("interval", [2.0, 10.0, 40.0])
@pytest.mark.parametrize(("restart", "down"), [(0.0, 0.0), (5.0, 0.0), (5.0, 10.0)])
def test_the_formula_is_what_failures_leave(interval: float, restart: float, down: float) -> None:
    costs = Costs(checkpoint=1.0, restart=restart, between=30.0, down=down)
    simulated = simulate(interval, costs, Random(1), 10_000)  # noqa: S311 - no secret
    assert goodput(interval, costs) == pytest.approx(simulated, abs=0.02)


def test_the_best_interval_is_the_best() -> None:
    costs = Costs(checkpoint=5.0, restart=600.0, between=24 * _HOUR)
    best = best_interval(costs)
    assert best == pytest.approx(youngs_interval(costs), rel=0.02)
    assert best == pytest.approx(math.sqrt(2 * 5 * 24 * _HOUR) - 5, rel=0.01)
    tried = [best * factor for factor in (0.25, 0.5, 0.9, 1, 1.1, 2, 4)]
    assert max(tried, key=lambda one: goodput(one, costs)) == best


def test_long_checkpoints_have_one_as_well() -> None:
    costs = Costs(checkpoint=1.0, restart=0.0, between=3.0)
    best = best_interval(costs)
    assert goodput(best, costs) > 0.999 * max(
        goodput(each / 100, costs) for each in range(10, 1000)
    )
    assert best_interval(Costs(6.0, 0.0, 3.0)) == 3


def test_extremes() -> None:
    assert goodput(9.0, Costs(1.0, 5.0, math.inf)) == 0.9
    assert goodput(1e9, Costs(1.0, 5.0, 1.0)) == 0
