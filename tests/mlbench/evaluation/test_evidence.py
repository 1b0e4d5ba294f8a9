"""The tests against SciPy's, and how often they say that runs differ."""

import math
import random
from collections.abc import Sequence

import pytest
import scipy  # its parts are loaded when they are used

from mlbench.contract.comparisons import Evidence
from mlbench.evaluation.statistics import hold_against, judge, mann_whitney
from tests.support.known import known

_NAMES = ("1 worker", "2 workers")


def _draw(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


def _judge(
    first: Sequence[float], other: Sequence[float], seeds: tuple[Sequence[int], Sequence[int]]
) -> Evidence:
    return judge([known(hold_against(first, other, _NAMES, seeds=seeds))])[0]


@pytest.mark.parametrize("sizes", [(2, 2), (3, 7), (5, 5), (12, 12)])
def test_few_runs_are_counted_exactly(sizes: tuple[int, int]) -> None:
    draw = _draw(1)
    for shift in (0.0, 0.3, 1.0):
        some, others = ([draw.random() + shift * i for _ in range(n)] for i, n in enumerate(sizes))
        expected = scipy.stats.mannwhitneyu(some, others, method="exact").pvalue
        assert mann_whitney(some, others) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sizes", [(13, 13), (20, 100)])
def test_many_runs_and_their_ties_are_taken_as_normal(sizes: tuple[int, int]) -> None:
    draw = _draw(1)
    some, others = ([round(draw.random(), 1) for _ in range(n)] for n in sizes)
    expected = scipy.stats.mannwhitneyu(some, others, method="asymptotic").pvalue
    assert mann_whitney(some, others) == pytest.approx(expected, rel=1e-9)
    assert mann_whitney([1.0] * sizes[0], [1.0] * sizes[1]) == 1.0


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_runs_of_the_same_seeds_are_paired(runs: int) -> None:
    draw = _draw(runs)
    first = [draw.lognormvariate(0.0, 0.1) for _ in range(runs)]
    other = [one * draw.lognormvariate(0.05, 0.05) for one in first]
    found = _judge(first, other[::-1], ([*range(runs)], [*range(runs)][::-1]))
    expected = scipy.stats.ttest_rel([*map(math.log, first)], [*map(math.log, other)]).pvalue
    assert found.test == "paired t"
    assert found.p == pytest.approx(expected, rel=1e-6)
    assert found.can_tell


def test_runs_are_paired_only_where_both_groups_had_each_seed_once() -> None:
    times = [10.0, 11.0, 12.0]
    for seeds in ([1, 2, 4], [1, 2, 2], []):
        assert _judge(times, times, ([1, 2, 3], seeds)).test == "Mann-Whitney"
    assert _judge(times, [9.0, 9.5, math.inf], ([1, 2, 3], [1, 2, 3])).test == "Mann-Whitney"
    assert _judge(times, times, ([1, 2, 3], [1, 2, 3])).p == 1.0


def _runs(draw: random.Random, mean: float, count: int) -> list[float]:
    """Return training times with a spread of 5 %."""
    return [mean * draw.lognormvariate(0.0, 0.05) for _ in range(count)]


def test_of_twenty_equal_groups_hardly_a_set_has_one_that_differs() -> None:
    draw, sets = _draw(3), 0
    for _ in range(100):
        first = _runs(draw, 10.0, 10)
        held = [known(hold_against(first, _runs(draw, 10.0, 10), _NAMES)) for _ in range(20)]
        sets += any(one.distinguishable for one in judge(held))
    assert sets <= 8


def test_what_cannot_be_told_says_how_many_runs_would_tell() -> None:
    few = _judge([10.0, 10.5, 11.0], [9.5, 10.2, 10.6], ([], []))
    assert few.p == pytest.approx(0.7)
    assert (few.distinguishable, few.runs_needed, few.can_tell) == (False, 31, False)
    assert few.text == (
        "no significant difference between 2 workers and 1 worker with 3 runs each "
        "(p = 0.7, Mann-Whitney); "
        "31 runs each would show it, if the true difference is the one seen"
    )
    more = _judge([10.0, 10.5, 11.0, 10.2], [9.5, 10.2, 10.6, 10.4], ([], []))
    assert ": so many show a difference of " in more.text


def test_several_comparisons_are_corrected() -> None:
    held = known(hold_against([1.0, 2, 3, 4], [5.0, 6, 7, 8], _NAMES))
    one, other = judge([held, held])
    assert one.p == other.p == pytest.approx(2 / 35)
    assert "(p = 0.057, Mann-Whitney, corrected for 2 comparisons)" in one.text


def test_runs_that_missed_their_goal_rank_last() -> None:
    found = _judge([10.0, 11.0, 12.0, 13.0], [math.inf] * 4, ([], []))
    assert (found.distinguishable, found.detectable, found.runs_needed) == (True, None, None)
    assert hold_against([1.0], [2.0, 3.0], _NAMES) is None
