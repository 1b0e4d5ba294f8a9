"""Means, ratios, and summaries of a figure over several runs of a kind."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median, stdev

from mlbench.contract.results import Summary
from mlbench.evaluation import intervals

ENOUGH = 3
"""From so many runs on, a mean has an interval."""


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN if the sum is too large for a float."""
    try:
        return fmean(values)
    except (OverflowError, ValueError):  # infinite sums, or infinities of both signs
        return math.nan


def mean_or_none(values: Sequence[float]) -> float | None:
    """Return the mean; None if there are no values."""
    return mean(values) if values else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return the quotient; None if one of the two is missing, or the whole is 0."""
    return part / whole if part is not None and whole else None


def of_figures(
    figures: Iterable[float | None], confidence: float = intervals.CONFIDENCE
) -> Summary | None:
    """Summarize a figure of each run; runs without it do not count."""
    return _summarize(known(figures), confidence)


def of_times(
    seconds: Iterable[float | None], confidence: float = intervals.CONFIDENCE
) -> Summary | None:
    """Summarize times to accuracy; there is no mean if a run has none."""
    return _summarize(missed_as_slowest(seconds), confidence)


def mean_of_times(seconds: Iterable[float | None]) -> float:
    """Return the mean time to accuracy of runs; infinite if one has none."""
    return mean(missed_as_slowest(seconds))


def known(figures: Iterable[float | None]) -> list[float]:
    """Return the figures that runs have, without those that are no finite number."""
    return [figure for figure in figures if figure is not None and math.isfinite(figure)]


def missed_as_slowest(seconds: Iterable[float | None]) -> list[float]:
    """Return times to accuracy, infinite for the runs without one."""
    return [math.inf if one is None else one for one in seconds]


def _summarize(figures: Sequence[float], confidence: float) -> Summary | None:
    """Summarize figures, of which infinite ones are those of runs that missed their goal."""
    ranked = sorted(figures)
    had = [figure for figure in ranked if math.isfinite(figure)]
    if not had:
        return None
    has_mean = len(had) == len(ranked)
    has_interval = has_mean and len(ranked) >= ENOUGH
    low, high = intervals.of_mean(ranked, confidence) if has_interval else (None, None)
    return Summary(
        count=len(had),
        mean=mean(ranked) if has_mean else None,
        mean_low=low,
        mean_high=high,
        median=middle if math.isfinite(middle := median(ranked)) else None,
        minimum=had[0],
        maximum=had[-1],
        standard_deviation=_deviation(had) if len(had) > 1 else None,
    )


def _deviation(figures: Sequence[float]) -> float:
    """Return the standard deviation of a sample; NaN if it is too large for a float."""
    try:
        return stdev(figures)
    except OverflowError:
        return math.nan
