"""MLPerf's rules: the mean without extremes, runs that failed, the window of the median."""

import math

import pytest

from mlbench.evaluation.official import Window, choose, score

_NEVER = math.inf


def test_the_fastest_and_the_slowest_are_dropped_and_one_may_have_failed() -> None:
    assert score([9, 1, 5, 6, 7]) == 6
    assert score([9, 1, 5, 6, _NEVER]) == 20 / 3
    assert score([9, 1, 5, _NEVER, _NEVER]) == _NEVER


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([3.0, 1, 2, 5, 4], Window(0, 3)),
        # The rules' example, "Scoring": 10 runs, windows of 5, of which there are 6.
        ([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10], Window(3, 6)),
        # Any failed run counts as infinite, and is dropped as the slowest of its window.
        ([1.0, 2, 3, 4, _NEVER, 6, 7, 8, 9, 10], Window(3, 7)),
        # Two have failed, but no window of 5 has both.
        ([1.0, 2, _NEVER, 4, 5, 6, 7, 8, _NEVER, 10], Window(2, 6)),
        # Two windows are invalid, and count as infinite.
        ([1.0, _NEVER, _NEVER, 4, 5, 6, 7, 8, 9], Window(4, 7)),
    ],
)
def test_of_more_runs_the_window_with_the_median_score_counts(
    seconds: list[float], expected: Window
) -> None:
    found = choose(seconds, size=5)
    assert found == expected


def test_if_the_median_window_is_invalid_so_is_the_result() -> None:
    found = choose([1.0, 2, 3, _NEVER, _NEVER, 6], size=5)
    assert found.score == _NEVER
