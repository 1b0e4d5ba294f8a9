"""How well a few runs tell a mean: intervals that cover it with 95 % from three runs on.

Times and rates of equal runs are about lognormal, which the 95 % assume. If one run in ten is 1.4
times as slow, they cover 90, 84 and 78 % for 3, 5 and 10 runs. The logarithm of such a mean is the
mean of the logarithms and half of their variance; its error, with Student's t in place of the
normal quantile, is Cox's (Olsson 2005, "Confidence intervals for the mean of a log-normal
distribution"). A bootstrap of three runs, in comparison, covers the mean with 75 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import fmean, stdev

CONFIDENCE = 0.95
LOOKED_AT = 0.98
"""Of an interval that is looked at after each run from the fifth on, until it is narrow enough: it
covers the mean with 95 % over all of these looks, as a test simulates."""
Interval = tuple[float | None, float | None]
"""Its ends; None for one that is not known."""


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, for a probability from 0.5 to 1."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
        )
    return high


def t_probability(t: float, freedom: int) -> float:
    """Return P(T <= t) of Student's t distribution, for t >= 0 (Abramowitz, Stegun: 26.7)."""
    angle = math.atan2(t, math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * k / (k + 1)
    inside = math.sin(angle) * total
    if odd:
        inside = (angle + inside) * 2 / math.pi
    return 0.5 + inside / 2


@dataclass(frozen=True)
class LogMean:
    """The logarithm of the mean of what runs are drawn from, and its standard error."""

    value: float
    error: float
    freedom: int

    def draw(self, random: Random) -> float:
        """Draw a value that it may have, as the runs tell."""
        spread = math.sqrt(random.gammavariate(self.freedom / 2, 2) / self.freedom)
        return self.value + self.error * random.gauss(0.0, 1.0) / spread


def log_mean(figures: Sequence[float]) -> LogMean:
    """Estimate the logarithm of a mean from two figures at least, all positive and finite."""
    logs = [math.log(figure) for figure in figures]
    runs, middle = len(logs), fmean(logs)
    # The variance; that of `statistics` takes ten times as long, for digits that nobody sees.
    spread = math.dist(logs, [middle] * runs) ** 2 / (runs - 1)
    error = math.sqrt(spread / runs + spread**2 / (2 * (runs - 1)))
    return LogMean(middle + spread / 2, error, runs - 1)


def of_ratio(whole: Sequence[float], part: Sequence[float]) -> Interval:
    """Return between what the quotient of two means lies, by Welch's t of their logarithms.

    Both have two figures at least; not known if they are not all positive and finite.
    """
    if min(len(whole), len(part)) < 2 or not all(0 < x < math.inf for x in (*whole, *part)):
        return None, None
    first, other = log_mean(whole), log_mean(part)
    squares = first.error**2, other.error**2
    error = math.sqrt(sum(squares))
    if not error:
        quotient = math.exp(first.value - other.value)
        return quotient, quotient
    parts = zip(squares, (first.freedom, other.freedom), strict=True)
    freedom = error**4 / sum(square**2 / free for square, free in parts)
    width = t_quantile((1 + CONFIDENCE) / 2, max(1, math.floor(freedom))) * error
    middle = first.value - other.value
    return math.exp(middle - width), math.exp(middle + width)


def of_mean(figures: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return between what the mean of what runs are drawn from lies, for two runs at least.

    An infinite figure is that of a run that did not reach its goal: there is no upper end then.
    """
    finite = [figure for figure in figures if math.isfinite(figure)]
    if len(finite) < 2:
        return None, None
    try:
        low, high = _of_known(finite, (1 + confidence) / 2)
    except OverflowError:
        return None, None
    return low, high if len(finite) == len(figures) else None


def of_any_mean(figures: Sequence[float]) -> Interval:
    """Return the same of finite figures that need not be lognormal, by Student's t of themselves.

    It covers the mean with 95 % where means of so many figures are about normal.
    """
    if len(figures) < 2:
        return None, None
    low, high = _of_any(figures, (1 + CONFIDENCE) / 2)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)


def _of_known(figures: Sequence[float], inside: float) -> tuple[float, float]:
    if min(figures) > 0:
        found = log_mean(figures)
        width = t_quantile(inside, found.freedom) * found.error
        return math.exp(found.value - width), math.exp(found.value + width)
    # Of figures that may be negative, there are no logarithms.
    return _of_any(figures, inside)


def _of_any(figures: Sequence[float], inside: float) -> tuple[float, float]:
    width = t_quantile(inside, len(figures) - 1) * stdev(figures) / math.sqrt(len(figures))
    return fmean(figures) - width, fmean(figures) + width
