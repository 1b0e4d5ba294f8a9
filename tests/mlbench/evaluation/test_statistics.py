"""Summaries, coverage of confidence intervals in simulations, and significance tests."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import pytest
import scipy  # submodules are loaded when they are used

from mlbench.contract.comparisons import SignificanceTest
from mlbench.contract.results import Summary
from mlbench.evaluation.statistics import (
    LOOKED_AT,
    Interval,
    hold_against,
    judge,
    mann_whitney,
    of_any_mean,
    of_figures,
    of_mean,
    of_mean_share,
    of_ratio,
    of_shares,
    of_times,
    t_quantile,
)
from tests.support.known import known

_SETS = 3000


@cache
def _spread(cv: float) -> float:
    """Return the standard deviation of log times for a coefficient of variation."""
    return math.sqrt(math.log(1 + cv**2))


def lognormal(random: Random, mean: float, cv: float) -> float:
    """Draw a time with this mean and coefficient of variation."""
    spread = _spread(cv)
    return mean * math.exp(random.gauss(-(spread**2) / 2, spread))


Draw = Callable[[Random], float]


def times(cv: float) -> Draw:
    """Return a function that draws lognormal times with a mean of 100."""
    return lambda random: lognormal(random, 100.0, cv)


def shares(mean: float, deviation: float) -> Draw:
    """Return a function that draws beta-distributed shares with this mean and deviation."""
    size = mean * (1 - mean) / deviation**2 - 1
    return lambda random: random.betavariate(mean * size, (1 - mean) * size)


def skewed(center: float) -> Draw:
    """Return a function that draws shares with normal logits: 2 % of them are extreme."""
    return lambda random: 1 / (1 + math.exp(-random.gauss(center, 0.8)))


@pytest.mark.parametrize(
    ("interval", "draw", "mean", "runs", "least", "most"),
    [
        *((of_mean, times(cv), 100.0, n, 0.94, 0.96) for n in (3, 5, 10, 20) for cv in (0.05, 0.3)),
        # Figures of arbitrary runs, uniformly distributed.
        *((of_any_mean, lambda r: r.uniform(-1, 3), 1.0, n, 0.92, 0.96) for n in (3, 5, 20)),
        # Goodput is usually high, communication varies, and CPU contention is low.
        *(
            (of_mean_share, shares(mean, deviation), mean, runs, 0.93, 0.97)
            for mean, deviation in ((0.95, 0.02), (0.6, 0.2), (0.3, 0.15), (0.05, 0.03))
            for runs in (2, 3, 10)
        ),
        *((of_mean_share, skewed(3.0), 0.9388, runs, 0.925, 1.0) for runs in (2, 3)),
        *((of_mean_share, skewed(-2.0), 0.1434, runs, 0.925, 1.0) for runs in (5, 10)),
    ],
)
def test_95_percent_of_intervals_cover_the_mean(
    interval: Callable[[Sequence[float]], Interval],
    draw: Draw,
    mean: float,
    runs: int,
    least: float,
    most: float,
) -> None:
    random, covered = Random(runs), 0  # noqa: S311 - no secret
    for _ in range(_SETS):
        low, high = interval([draw(random) for _ in range(runs)])
        covered += known(low) <= mean <= known(high)
        assert interval is not of_mean_share or 0 <= known(low) <= known(high) <= 1
    assert least <= covered / _SETS <= most


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_intervals_of_shares_are_within_the_whole(whole: float) -> None:
    for shares in ([0.01, 0.45], [0.5, 1.0], [0.0, 0.0, 0.3]):
        low, high = map(known, of_mean_share([share * whole for share in shares], whole=whole))
        assert 0 <= low < sum(shares) / len(shares) * whole < high <= whole
    assert of_mean_share([whole, whole], whole=whole) == (whole, whole)
    assert of_mean_share([0.0, 0.0], whole=whole) == (0.0, 0.0)
    assert of_mean_share([0.5]) == (None, None)


def test_shares_have_an_interval_from_three_runs_on() -> None:
    shares = known(of_shares([0.9, 0.99, 0.95, None]))
    assert (shares.count, shares.mean_low is not None) == (3, True)
    assert known(shares.mean_high) < 1
    assert known(of_shares([0.9, 0.99])).mean_low is None
    assert of_shares([None]) is None


def _width(found: Interval) -> float:
    return (found[1] or math.inf) - (found[0] or 0.0)


@pytest.mark.parametrize("cv", [0.05, 0.15, 0.3])
def test_intervals_cover_95_percent_despite_checks_after_each_run(cv: float) -> None:
    """The set stops once its mean is known to within 5 %, after 5 to 20 runs."""
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
def test_95_percent_of_intervals_cover_the_speed_up(runs: int, cvs: tuple[float, float]) -> None:
    random, covered = Random(runs), 0  # noqa: S311 - no secret
    for _ in range(_SETS):
        pairs = zip((100.0, 60.0), cvs, strict=True)
        one, two = ([lognormal(random, mean, cv) for _ in range(runs)] for mean, cv in pairs)
        low, high = of_ratio(one, two)
        covered += known(low) <= 100 / 60 <= known(high)
    assert covered / _SETS >= 0.94


def test_figures_may_be_negative_and_a_missed_target_leaves_no_upper_bound() -> None:
    assert of_mean([-1.0, 0.0, 1.0]) == pytest.approx((-4.3027 / 3**0.5, 4.3027 / 3**0.5), rel=1e-4)
    low, high = of_mean([10.0, 11.0, math.inf])
    assert (low is not None, high) == (True, None)
    assert of_mean([10.0, math.inf]) == (None, None)


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 26])
def test_quantiles_match_scipy(freedom: int) -> None:
    for probability in (0.6, 0.95, 0.99):
        expected = scipy.stats.t.ppf(probability, freedom)
        assert t_quantile(probability, freedom) == pytest.approx(expected)


def test_the_mean_includes_all_runs() -> None:
    found = known(of_times([10.0, 14.0, 11.0, 30.0, 12.0]))
    assert found.mean == pytest.approx(15.4)
    # The deviations from 15.4 are 5.4, 1.4, 4.4, 14.6 and 3.4.
    variance = (29.16 + 1.96 + 19.36 + 213.16 + 11.56) / 4
    assert found.standard_deviation == pytest.approx(math.sqrt(variance))
    assert (found.count, found.median) == (5, 12.0)
    assert (found.minimum, found.maximum) == (10.0, 30.0)


@pytest.mark.parametrize(
    ("times", "count", "median"), [([10.0, None, 14.0], 2, 14.0), ([None, 10.0, None], 1, None)]
)
def test_a_missed_target_leaves_no_mean_and_ranks_last(
    times: list[float | None], count: int, median: float | None
) -> None:
    found = known(of_times(times))
    assert (found.count, found.mean, found.mean_low, found.mean_high) == (count, None, None, None)
    assert (found.minimum, found.median) == (10.0, median)


@pytest.mark.parametrize("huge", [1.6e308, -1.6e308])
def test_sums_too_large_for_a_float_have_neither_mean_nor_spread(huge: float) -> None:
    found = known(of_figures([1.6e308, huge]))
    assert (found.minimum, found.maximum) == (min(huge, 1.6e308), 1.6e308)
    assert not (math.isfinite(found.mean or 0.0) and math.isfinite(found.standard_deviation or 0.0))


def test_runs_without_the_figure_are_ignored() -> None:
    assert of_times([None, None]) is None
    assert of_times([]) is None
    assert of_figures([None, math.nan]) is None
    found = of_figures([None, 3.0, math.nan, 1.0, 2.0, math.inf])
    assert found == of_figures([1.0, 2.0, 3.0])
    low, high = of_mean([1.0, 2.0, 3.0])
    assert found == Summary(3, 2.0, low, high, 2.0, 1.0, 3.0, 1.0)


def test_a_mean_of_at_least_three_runs_has_an_interval() -> None:
    found = known(of_figures([10.0, 10.4, 9.8, 10.2, 10.1, 9.9]))
    assert 9.8 < known(found.mean_low) < known(found.mean) < known(found.mean_high) < 10.4
    two = known(of_figures([1.0, 2.0]))
    assert (two.mean, two.mean_low, two.mean_high) == (1.5, None, None)


_NAMES = ("1 worker", "2 workers")


def _judge(
    first: Sequence[float], other: Sequence[float], seeds: tuple[Sequence[int], Sequence[int]]
) -> SignificanceTest:
    return judge([known(hold_against(first, other, _NAMES, seeds=seeds))])[0]


@pytest.mark.parametrize("sizes", [(2, 2), (3, 7), (5, 5), (12, 12)])
def test_few_runs_get_an_exact_p_value(sizes: tuple[int, int]) -> None:
    draw = Random(1)  # noqa: S311 - no secret
    for shift in (0.0, 0.3, 1.0):
        some, others = ([draw.random() + shift * i for _ in range(n)] for i, n in enumerate(sizes))
        expected = scipy.stats.mannwhitneyu(some, others, method="exact").pvalue
        assert mann_whitney(some, others) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sizes", [(13, 13), (20, 100)])
def test_many_runs_get_a_normal_approximation_with_ties(sizes: tuple[int, int]) -> None:
    draw = Random(1)  # noqa: S311 - no secret
    some, others = ([round(draw.random(), 1) for _ in range(n)] for n in sizes)
    expected = scipy.stats.mannwhitneyu(some, others, method="asymptotic").pvalue
    assert mann_whitney(some, others) == pytest.approx(expected, rel=1e-9)
    assert mann_whitney([1.0] * sizes[0], [1.0] * sizes[1]) == 1.0


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_runs_with_the_same_seeds_are_paired(runs: int) -> None:
    draw = Random(runs)  # noqa: S311 - no secret
    first = [draw.lognormvariate(0.0, 0.1) for _ in range(runs)]
    other = [one * draw.lognormvariate(0.05, 0.05) for one in first]
    found = _judge(first, other[::-1], ([*range(runs)], [*range(runs)][::-1]))
    expected = scipy.stats.ttest_rel([*map(math.log, first)], [*map(math.log, other)])
    assert (found.test, found.can_tell) == ("paired t", True)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    # The interval of the speed-up comes from the same test.
    low, high = known(found.times_faster_low), known(found.times_faster_high)
    assert (math.log(low), math.log(high)) == pytest.approx(expected.confidence_interval(0.95))
    rates = known(hold_against(first, other, _NAMES, are_rates=True))
    assert rates.interval == of_ratio(other, first)


def test_runs_are_paired_only_if_both_groups_have_each_seed_once() -> None:
    times = [10.0, 11.0, 12.0]
    for seeds in ([1, 2, 4], [1, 2, 2], []):
        assert _judge(times, times, ([1, 2, 3], seeds)).test == "Mann-Whitney"
    assert _judge(times, [9.0, 9.5, math.inf], ([1, 2, 3], [1, 2, 3])).test == "Mann-Whitney"
    assert _judge(times, times, ([1, 2, 3], [1, 2, 3])).p == 1.0


def test_twenty_equal_groups_rarely_contain_a_significant_one() -> None:
    draw, sets = Random(3), 0  # noqa: S311 - no secret
    for _ in range(100):
        first, *others = ([lognormal(draw, 10.0, 0.05) for _ in range(10)] for _ in range(21))
        held = [known(hold_against(first, other, _NAMES)) for other in others]
        sets += any(one.distinguishable for one in judge(held))
    assert sets <= 8


def test_an_insignificant_difference_states_the_required_runs() -> None:
    few = _judge([10.0, 10.5, 11.0], [9.5, 10.2, 10.6], ([], []))
    assert few.p == pytest.approx(0.7)
    assert (few.distinguishable, few.runs_needed, few.can_tell) == (False, 31, False)
    result = "2 workers and 1 worker with 3 runs each (p = 0.7, Mann-Whitney)"
    needed = "31 runs each would show it, if the true difference is the one seen"
    assert few.text == f"no significant difference between {result}; {needed}"
    more = _judge([10.0, 10.5, 11.0, 10.2], [9.5, 10.2, 10.6, 10.4], ([], []))
    assert ": they could show a difference of " in more.text


def test_several_comparisons_are_corrected() -> None:
    held = known(hold_against([1.0, 2, 3, 4], [5.0, 6, 7, 8], _NAMES))
    one, other = judge([held, held])
    assert one.p == other.p == pytest.approx(2 / 35)
    assert "(p = 0.057, Mann-Whitney, corrected for 2 comparisons)" in one.text


def test_runs_that_missed_their_target_rank_last() -> None:
    found = _judge([10.0, 11.0, 12.0, 13.0], [math.inf] * 4, ([], []))
    assert (found.distinguishable, found.detectable, found.runs_needed) == (True, None, None)
    assert hold_against([1.0], [2.0, 3.0], _NAMES) is None
