"""The test by ranks against SciPy's, and how often it says that runs differ."""

import math
import random

import pytest
from scipy.stats import mannwhitneyu

from master.results.evidence import judge, mann_whitney

_NAMES = ("1 worker", "2 workers")


def _draw(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


@pytest.mark.parametrize("sizes", [(2, 2), (3, 7), (5, 5), (12, 12)])
def test_few_runs_are_counted_exactly(sizes: tuple[int, int]) -> None:
    draw = _draw(1)
    for shift in (0.0, 0.3, 1.0):
        some, others = ([draw.random() + shift * i for _ in range(n)] for i, n in enumerate(sizes))
        expected = mannwhitneyu(some, others, method="exact").pvalue
        assert mann_whitney(some, others) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sizes", [(13, 13), (20, 100)])
def test_many_runs_and_their_ties_are_taken_as_normal(sizes: tuple[int, int]) -> None:
    draw = _draw(1)
    some, others = ([round(draw.random(), 1) for _ in range(n)] for n in sizes)
    expected = mannwhitneyu(some, others, method="asymptotic").pvalue
    assert mann_whitney(some, others) == pytest.approx(expected, rel=1e-9)
    assert mann_whitney([1.0] * sizes[0], [1.0] * sizes[1]) == 1.0


def _runs(draw: random.Random, mean: float, count: int) -> list[float]:
    """Return training times with a spread of 5 %."""
    return [mean * draw.lognormvariate(0.0, 0.05) for _ in range(count)]


def test_equal_runs_are_told_apart_in_at_most_five_percent_of_cases() -> None:
    draw = _draw(0)
    told = [
        found.distinguishable
        for _ in range(200)
        if (found := judge(_runs(draw, 10.0, 5), _runs(draw, 10.0, 5), _NAMES))
    ]
    assert len(told) == 200
    assert sum(told) <= 10


def test_runs_that_are_15_percent_slower_are_found() -> None:
    draw = _draw(0)
    told = [
        found.distinguishable
        for _ in range(50)
        if (found := judge(_runs(draw, 10.0, 5), _runs(draw, 11.5, 5), _NAMES))
    ]
    assert sum(told) >= 40


def test_what_cannot_be_told_says_how_many_runs_would_tell() -> None:
    few = judge([10.0, 10.5, 11.0], [9.5, 10.2, 10.6], _NAMES)
    assert few is not None
    assert few.p == pytest.approx(0.7)
    assert (few.distinguishable, few.runs_needed) == (False, 31)
    assert few.text == (
        "2 workers cannot be told from 1 worker with 3 runs each (p = 0.7, Mann-Whitney): "
        "fewer than 4 never tell; 31 runs each would show the one seen"
    )
    more = judge([10.0, 10.5, 11.0, 10.2], [9.5, 10.2, 10.6, 10.4], _NAMES)
    assert more is not None
    assert ": so many show a difference of " in more.text


def test_runs_that_missed_their_goal_rank_last() -> None:
    found = judge([10.0, 11.0, 12.0, 13.0], [math.inf] * 4, _NAMES)
    assert found is not None
    assert (found.distinguishable, found.detectable, found.runs_needed) == (True, None, None)
    assert judge([1.0], [2.0, 3.0], _NAMES) is None
