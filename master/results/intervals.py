"""How well a few runs tell a mean: intervals that cover it with 95 % from three runs on.

Times and rates of equal runs are about lognormal. The logarithm of such a mean is the mean of the
logarithms and half of their variance; its error, with Student's t in place of the normal quantile,
is Cox's (Olsson 2005, "Confidence intervals for the mean of a log-normal distribution"). A
bootstrap of three runs, in comparison, covers the mean with 75 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist, fmean, stdev, variance

CONFIDENCE = 0.95
# Student's t for 1 to 30 degrees of freedom; beyond, two terms of its expansion are as good.
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

Interval = tuple[float | None, float | None]
"""Its ends; None for one that is not known."""


def student_t(freedom: float) -> float:
    """Return within how many standard errors 95 % lie, for at least one degree of freedom."""
    if freedom < len(_T) + 1:
        return _T[max(1, math.floor(freedom)) - 1]
    return _Z + (_Z**3 + _Z) / (4 * freedom) + (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96 / freedom**2


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
    logs = [math.log(one) for one in figures]
    runs, spread = len(logs), variance(logs)
    error = math.sqrt(spread / runs + spread**2 / (2 * (runs - 1)))
    return LogMean(fmean(logs) + spread / 2, error, runs - 1)


def of_mean(figures: Sequence[float]) -> Interval:
    """Return between what the mean of what runs are drawn from lies, for two runs at least.

    An infinite figure is that of a run that did not reach its goal: there is no upper end then.
    """
    known = [one for one in figures if math.isfinite(one)]
    if len(known) < 2:  # noqa: PLR2004 - a spread takes two
        return None, None
    try:
        low, high = _of_known(known)
    except OverflowError:
        return None, None
    return low, high if len(known) == len(figures) else None


def _of_known(figures: Sequence[float]) -> tuple[float, float]:
    if min(figures) > 0:
        found = log_mean(figures)
        width = student_t(found.freedom) * found.error
        return math.exp(found.value - width), math.exp(found.value + width)
    # Of figures that may be negative, there are no logarithms.
    width = student_t(len(figures) - 1) * stdev(figures) / math.sqrt(len(figures))
    return fmean(figures) - width, fmean(figures) + width
