"""What of a set matters most: rank correlations, their intervals, and what is left of the set."""

import math
from collections.abc import Callable
from random import Random

import pytest

from mlbench.contract.records import RunSet, SetPlace, Trial
from mlbench.contract.sweeps import SetAnalysis
from mlbench.evaluation.sweeps import RunFigures, analyze, interval, spearman
from tests.support.known import known

# Seconds to the goal by exchange and bandwidth: both matter, the exchange more.
_SECONDS = {
    ("flat", "10"): 90.0,
    ("flat", "100"): 60.0,
    ("topk", "10"): 30.0,
    ("topk", "100"): 20.0,
}


def made(seconds: dict[tuple[str, str], float], *, repeats: int = 4, done: int = 99) -> SetAnalysis:
    """Analyze a set of so many repeats, of which the first places are done."""
    places, figures = [], {}
    for number, (exchange, bandwidth) in enumerate([*seconds] * repeats, 1):
        trial = Trial(number, number, 1, "FINISHED", "", False, False, counts=True, remark="")
        swept = {"exchange": exchange, "bandwidth": bandwidth}
        trials = (trial,) if number <= done else ()
        places.append(SetPlace(number, f"r{number}", 2, 1, not trials, trials, swept))
        took = seconds[exchange, bandwidth] + number / 100
        figures[number] = RunFigures(took if took < math.inf else None, 100.0, took + 10)
    run_set = RunSet("s", "2026-01-01T00:00:00Z", False, None, {}, tuple(places), "")
    return analyze(run_set, figures)


@pytest.mark.parametrize(
    ("some", "others", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, math.inf], 1),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1),
        # Of the ranks 1.5, 1.5, 3.5, 3.5, 5 and 1, 2.5, 2.5, 5, 4.
        ([1, 1, 2, 2, 3], [5, 6, 6, 8, 7], 6.5 / math.sqrt(9 * 9.5)),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_a_rank_correlation(some: list[float], others: list[float], expected: float | None) -> None:
    found = spearman(some, others)
    assert found == (expected and pytest.approx(expected))


def _normal(correlation: float) -> Callable[[Random], tuple[float, float]]:
    def draw(random: Random) -> tuple[float, float]:
        x, e = random.gauss(0, 1), random.gauss(0, 1)
        return x, correlation * x + math.sqrt(1 - correlation**2) * e

    return draw


def _of_three_levels(random: Random) -> tuple[float, float]:
    level = random.randrange(3)
    return level, level + random.lognormvariate(0, 1)


@pytest.mark.parametrize("runs", [6, 12, 30])
@pytest.mark.parametrize("draw", [_normal(0.0), _normal(0.6), _normal(0.9), _of_three_levels])
def test_an_interval_covers_the_true_correlation(
    draw: Callable[[Random], tuple[float, float]], runs: int
) -> None:
    random = Random(runs)  # noqa: S311 - no secret
    true = known(spearman(*zip(*(draw(random) for _ in range(20_000)), strict=True)))
    covered = times = 0
    for _ in range(1000):
        correlation = spearman(*zip(*(draw(random) for _ in range(runs)), strict=True))
        if correlation is not None:
            low, high = interval(correlation, runs)
            covered += known(low) <= true <= known(high)
            times += 1
    assert covered / times > 0.93


def test_few_runs_have_no_interval() -> None:
    assert interval(0.5, 4) == (None, None)
    low, high = interval(1.0, 5)
    assert known(low) < known(high) == 1


def test_what_matters_most_comes_first() -> None:
    analysis = made(_SECONDS)
    assert [(effect.key, effect.value) for effect in analysis.effects] == [
        ("exchange", "topk"),
        ("bandwidth", ""),
    ]
    assert all(effect.correlation < 0 for effect in analysis.effects), "both make it faster"
    assert analysis.measure == "training time to the goal"
    assert [axis.key for axis in analysis.axes] == ["exchange", "bandwidth"]
    assert (analysis.points[2].name, analysis.points[2].values) == (
        "exchange topk, bandwidth 10, 2 workers",
        ("topk", "10"),
    )
    assert analysis.text == "exchange matters most"


def test_what_cannot_be_told_is_said() -> None:
    assert made(_SECONDS, done=4).text == "Nothing can be told from chance with 4 runs"
    assert made(_SECONDS, done=0).text == "Too few runs have ended to see what matters"
    alike = _SECONDS | {("topk", "10"): 60.0, ("topk", "100"): 30.0}
    assert made(alike, repeats=6).text == (
        "bandwidth or exchange matters most: which of them cannot be told yet"
    )


def test_a_run_that_missed_its_goal_is_the_slowest() -> None:
    missed = made(_SECONDS | {("flat", "10"): math.inf})
    assert missed.points[0].figure is None
    assert missed.effects[0].correlation == pytest.approx(-0.87, abs=0.01), "of topk, the faster"


def test_what_is_left_takes_as_long_as_what_is_alike() -> None:
    found = made(_SECONDS, done=8)
    assert found.places_left == 8
    assert found.seconds_left == pytest.approx(2 * (90 + 60 + 30 + 20 + 4 * 10), abs=1)
    assert made(_SECONDS).seconds_left == 0
    assert made(_SECONDS, done=0).seconds_left is None
