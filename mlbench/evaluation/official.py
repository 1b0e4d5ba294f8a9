"""MLPerf's rules for the score of a set of runs, as training_rules has them for v6.0. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

OFFICIAL_RUNS = 10
"""Runs of a result ("Benchmark Results"): of all of MLPerf's benchmarks but the largest two."""


def score(seconds: Sequence[float]) -> float:
    """Return the mean of runs without the fastest and the slowest; infinite if it is invalid.

    "Benchmark Results": a run that does not converge, whose time is infinite, may be dropped as the
    slowest; with more than one, the result is invalid.
    """
    return fmean(sorted(seconds)[1:-1])


@dataclass(frozen=True)
class Window:
    """The consecutive runs that a set is scored by."""

    first: int
    """The position of the first of them."""
    score: float
    """Infinite if the window is invalid: then there is no result ("Scoring")."""


def choose(seconds: Sequence[float], size: int = OFFICIAL_RUNS) -> Window:
    """Return the ``size`` consecutive runs with the median score of all such windows.

    "Scoring": of more runs than asked for, those are taken that are closest to the median, and
    windows that are invalid count as infinite. Of an even number of windows, whose median lies
    between two, it is the slower one, so that nobody gains by it; of equal ones the first. Runs
    come in the order in which they began; that of one that did not converge is infinite.
    """
    starts = range(len(seconds) - size + 1)
    windows = [Window(first, score(seconds[first : first + size])) for first in starts]
    windows.sort(key=lambda window: window.score)
    median = windows[len(windows) // 2]
    return next(window for window in windows if window.score == median.score)
