"""Figures over several runs of one kind, as MLPerf sums them up."""

import math
from collections.abc import Iterable, Sequence
from statistics import median, stdev

from master.results import mean
from mlbench.results import Summary

# From so many runs on, the fastest and the slowest are left out of the mean.
_ENOUGH = 3


def of_figures(figures: Iterable[float | None]) -> Summary | None:
    """Return the summary of a figure of each run; those without it are passed over."""
    return _summarize([one for one in figures if one is not None and math.isfinite(one)])


def of_times(seconds: Iterable[float | None]) -> Summary | None:
    """Return the summary of a time to accuracy; a run that has none counts as the slowest."""
    return _summarize([math.inf if one is None else one for one in seconds])


def _summarize(figures: Sequence[float]) -> Summary | None:
    """Return the summary of figures; the infinite ones take their place, and are not had."""
    ranked = sorted(figures)
    had = [one for one in ranked if math.isfinite(one)]
    if not had:
        return None
    counted = ranked[1:-1] if len(ranked) >= _ENOUGH else ranked
    has_mean = math.isfinite(counted[-1])
    return Summary(
        count=len(had),
        mean=mean(counted) if has_mean else None,
        left_out=len(ranked) - len(counted) if has_mean else 0,
        median=median(had),
        minimum=had[0],
        maximum=had[-1],
        standard_deviation=_spread(had) if len(had) > 1 else None,
    )


def _spread(figures: Sequence[float]) -> float:
    """Return the standard deviation of a sample; NaN where it is too large for a float."""
    try:
        return stdev(figures)
    except OverflowError:
        return math.nan
