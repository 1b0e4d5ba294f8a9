"""Means, intervals and significance tests of a figure over a few runs.

Times and rates of equal runs are approximately lognormal, and the 95 % of an interval assume that.
If one run in ten is 1.4 times as slow, intervals cover the mean with 90, 84 and 78 % for 3, 5 and
10 runs. The logarithm of such a mean is the mean of the logarithms plus half of their variance. Its
error, with Student's t in place of the normal quantile, is Cox's (Olsson 2005, "Confidence
intervals for the mean of a log-normal distribution"). A bootstrap of three runs, in comparison,
covers the mean with 75 %.

Groups whose runs had the same seeds are compared seed by seed: Student's t of the logarithms of the
quotients. Other groups are compared by a Mann-Whitney test, which assumes nothing about how times
are distributed. The p-values of several comparisons are corrected by Holm's method ("A simple
sequentially rejective multiple test procedure", 1979).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import NormalDist, fmean, median, stdev
from typing import Literal

from mlbench.contract.comparisons import SignificanceTest
from mlbench.contract.figures import percent
from mlbench.contract.records import GroupMean
from mlbench.contract.results import Summary

# --- Intervals of a mean ---

CONFIDENCE = 0.95
LOOKED_AT = 0.98
"""Confidence of an interval that is looked at after each run from the fifth on, until it is narrow
enough. Over all of these looks it covers the mean with 95 %, as a test simulates."""
Interval = tuple[float | None, float | None]
"""Ends of an interval; None for an unknown end."""


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
    """Logarithm of the mean of the runs' distribution, and its standard error."""

    value: float
    error: float
    freedom: int


def log_mean(figures: Sequence[float]) -> LogMean:
    """Estimate the logarithm of a mean from at least two figures, all positive and finite."""
    logs = [math.log(figure) for figure in figures]
    runs, middle = len(logs), fmean(logs)
    # The variance function of `statistics` takes ten times as long, for digits that nobody sees.
    spread = math.dist(logs, [middle] * runs) ** 2 / (runs - 1)
    error = math.sqrt(spread / runs + spread**2 / (2 * (runs - 1)))
    return LogMean(middle + spread / 2, error, runs - 1)


def of_ratio(whole: Sequence[float], part: Sequence[float]) -> Interval:
    """Return the interval of the quotient of two means, by Welch's t of their logarithms.

    Each needs at least two figures; unknown if they are not all positive and finite.
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
    """Return the interval of the mean of the runs' distribution, for at least two runs.

    The figure of a run that did not reach its target is infinite: then the upper end is unknown.
    """
    finite = [figure for figure in figures if math.isfinite(figure)]
    if len(finite) < 2:
        return None, None
    inside = (1 + confidence) / 2
    try:
        if min(finite) > 0:
            estimate = log_mean(finite)
            width = t_quantile(inside, estimate.freedom) * estimate.error
            low, high = math.exp(estimate.value - width), math.exp(estimate.value + width)
        else:  # Figures that may be negative have no logarithms.
            low, high = _of_any(finite, inside)
    except OverflowError:
        return None, None
    return low, high if len(finite) == len(figures) else None


def of_any_mean(figures: Sequence[float]) -> Interval:
    """Return the interval of the mean of finite figures of any distribution, by Student's t.

    It covers the mean with 95 % if means of this number of figures are approximately normal.
    """
    if len(figures) < 2:
        return None, None
    try:
        return _of_any(figures, (1 + CONFIDENCE) / 2)
    except OverflowError:
        return None, None


def of_mean_share(
    shares: Sequence[float], confidence: float = CONFIDENCE, whole: float = 1.0
) -> Interval:
    """Return the interval of the mean of at least two shares, which are from 0 to ``whole``.

    Student's t of the mean on the logit scale, so that both ends are between 0 and ``whole`` (Korn,
    Graubard 1998, "Confidence intervals for proportions"). It covers the mean with 93 to 96 % for 2
    to 10 runs, as a test simulates.
    """
    if len(shares) < 2:
        return None, None
    low, high = _of_any(shares, (1 + confidence) / 2)
    middle, width = fmean(shares) / whole, (high - low) / 2 / whole
    if not 0 < middle < 1:  # All shares are 0 or all are the whole.
        end = min(max(middle, 0.0), 1.0) * whole
        return end, end
    center, distance = math.log(middle / (1 - middle)), width / (middle * (1 - middle))
    low, high = ((1 + math.tanh((center + side) / 2)) / 2 for side in (-distance, distance))
    return low * whole, high * whole


def _of_any(figures: Sequence[float], inside: float) -> tuple[float, float]:
    """Return the interval of a mean by Student's t; OverflowError if it is too wide for a float."""
    middle, runs = fmean(figures), len(figures)
    # The function stdev of `statistics` takes ten times as long, for digits that nobody sees.
    spread = math.dist(figures, [middle] * runs) / math.sqrt(runs - 1)
    width = t_quantile(inside, runs - 1) * spread / math.sqrt(runs)
    if not math.isfinite(abs(middle) + width):
        raise OverflowError
    return middle - width, middle + width


# --- Summaries of a figure ---

ENOUGH = 3
"""Minimum number of runs for the interval of a mean."""


def mean_of_group(figures: Sequence[float]) -> GroupMean:
    """Return the mean of finite figures, at least one, with its interval by Student's t."""
    average = mean(figures)
    return GroupMean(
        len(figures), average if math.isfinite(average) else None, *of_any_mean(figures)
    )


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN if the sum is too large for a float."""
    try:
        return fmean(values)
    except (OverflowError, ValueError):  # infinite sums, or infinities of both signs
        return math.nan


def mean_or_none(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return mean(values) if values else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return the quotient; None if one of the two is missing, or the whole is 0."""
    return part / whole if part is not None and whole else None


def of_figures(figures: Iterable[float | None], confidence: float = CONFIDENCE) -> Summary | None:
    """Summarize a figure of each run; runs without it do not count."""
    return _summarize(known(figures), confidence)


def of_times(seconds: Iterable[float | None], confidence: float = CONFIDENCE) -> Summary | None:
    """Summarize times to target; the mean is None if a run missed its target."""
    return _summarize(missed_as_slowest(seconds), confidence)


def of_shares(shares: Iterable[float | None]) -> Summary | None:
    """Summarize a share of each run, from 0 to 1; runs without it do not count."""
    return _summarize(known(shares), CONFIDENCE, of_mean_share)


def known(figures: Iterable[float | None]) -> list[float]:
    """Return the figures that runs have, without NaN and infinities."""
    return [figure for figure in figures if figure is not None and math.isfinite(figure)]


def missed_as_slowest(seconds: Iterable[float | None]) -> list[float]:
    """Return times to target, infinite for the runs without one."""
    return [math.inf if time is None else time for time in seconds]


def _summarize(
    figures: Sequence[float],
    confidence: float,
    interval: Callable[[Sequence[float], float], Interval] = of_mean,
) -> Summary | None:
    """Summarize figures; the figure of a run that missed its target is infinite."""
    ranked = sorted(figures)
    finite = [figure for figure in ranked if math.isfinite(figure)]
    if not finite:
        return None
    has_mean = len(finite) == len(ranked)
    has_interval = has_mean and len(ranked) >= ENOUGH
    low, high = interval(ranked, confidence) if has_interval else (None, None)
    deviation = None
    if len(finite) > 1:
        try:
            deviation = stdev(finite)
        except OverflowError:  # The deviation is too large for a float.
            deviation = math.nan
    return Summary(
        count=len(finite),
        mean=mean(ranked) if has_mean else None,
        mean_low=low,
        mean_high=high,
        median=middle if math.isfinite(middle := median(ranked)) else None,
        minimum=finite[0],
        maximum=finite[-1],
        standard_deviation=deviation,
    )


# --- Significance of a difference ---

LEVEL = 0.05
# With fewer runs per group, not even complete separation has p < 0.05 by ranks. A deviation of
# differences needs three.
_MIN_RUNS: Mapping[str, int] = {"Mann-Whitney": 4, "paired t": 3}
_NORMAL = NormalDist()

Seeds = Sequence[Hashable]
"""Seed of each run of a group; None for a run without one."""


@dataclass(frozen=True)
class Pair:
    """Two groups that a test compares."""

    names: tuple[str, str]
    test: Literal["Mann-Whitney", "paired t"]
    p: float
    runs: int
    """Number of runs of the smaller group."""
    spread: float | None
    """Standard deviation of a run, or of a pair's difference, relative to the mean."""
    difference: float | None
    """Difference of the means, relative to the first."""
    times_faster: float | None
    least_p: float
    """Smallest possible p of the test with this number of runs."""
    interval: Interval = (None, None)
    """Interval of the speedup."""

    @property
    def detectable(self) -> float | None:
        """Smallest relative difference that this number of runs shows in four of five cases."""
        return None if self.spread is None else self.spread * math.sqrt(self._factor / self.runs)

    @property
    def needed(self) -> int | None:
        """Runs of each group that would show the observed difference; None for more than 100."""
        if self.spread is None or not self.difference:
            return None
        runs = math.ceil(self._factor * (self.spread / self.difference) ** 2)
        return max(_MIN_RUNS[self.test], runs) if runs <= 100 else None

    @property
    def _factor(self) -> float:
        """Runs that show a difference of one standard deviation with a power of 80 %."""
        distance = _NORMAL.inv_cdf(1 - LEVEL / 2) + _NORMAL.inv_cdf(0.8)
        # The test by ranks has an efficiency of 3 / pi relative to the t-test of normal figures.
        return distance**2 * (1 if self.test == "paired t" else 2 / (3 / math.pi))


def hold_against(
    first: Sequence[float],
    other: Sequence[float],
    names: tuple[str, str],
    times_faster: float | None = None,
    seeds: tuple[Seeds, Seeds] = ((), ()),
    are_rates: bool = False,
) -> Pair | None:
    """Compare two groups by a figure of each run; None if one of them has fewer than two runs.

    Figures are times, infinite for a target not reached, or rates. ``times_faster`` is the speedup
    of the other group by its mean; ``seeds`` are the seeds of the runs, empty if unknown.
    """
    if min(len(first), len(other)) < 2:
        return None
    are_finite = all(map(math.isfinite, [*first, *other]))
    difference = None
    if are_finite and fmean(first) and fmean(other):
        difference = abs(fmean(other) / fmean(first) - 1)
    # Runs are paired if both groups had the same seeds, each once.
    quotients: list[float] = []
    distinct, other_distinct = set(seeds[0]), set(seeds[1])
    are_unique = len({len(distinct), len(first), len(other), len(other_distinct)}) == 1
    are_same = distinct == other_distinct and None not in distinct
    is_enough = len(first) >= _MIN_RUNS["paired t"]
    if are_unique and are_same and is_enough and all(0 < x < math.inf for x in (*first, *other)):
        by_seed = dict(zip(seeds[0], first, strict=True))
        pairs = zip(seeds[1], other, strict=True)
        quotients = [math.log(x / by_seed[seed]) for seed, x in pairs]
    if quotients:
        spread, runs = stdev(quotients), len(quotients)
        t = abs(fmean(quotients)) * math.sqrt(runs) / spread if spread else math.inf
        # A smaller p is not computed exactly, and means the same.
        p = max(2 * (1 - t_probability(t, runs - 1)), 1e-9) if any(quotients) else 1.0
        low, high = (math.exp(end) for end in _of_any(quotients, (1 + CONFIDENCE) / 2))
        faster = (low, high) if are_rates else (1 / high, 1 / low)
        return Pair(names, "paired t", p, runs, spread, difference, times_faster, 0.0, faster)
    p, runs = mann_whitney(first, other), min(len(first), len(other))
    deviation = None
    if difference is not None:
        groups = (first, other)
        deviation = math.sqrt(fmean((stdev(group) / fmean(group)) ** 2 for group in groups))
    least = 2 / math.comb(len(first) + len(other), len(first))
    interval = of_ratio(other, first) if are_rates else of_ratio(first, other)
    return Pair(
        names, "Mann-Whitney", p, runs, deviation, difference, times_faster, least, interval
    )


def judge(comparisons: Sequence[Pair]) -> list[SignificanceTest]:
    """Judge comparisons together: 1 in 20 sets of equal groups has a significant difference."""
    # Holm's method corrects the p-values.
    order = sorted(range(len(comparisons)), key=lambda i: comparisons[i].p)
    corrected, largest = [0.0] * len(comparisons), 0.0
    for position, i in enumerate(order):
        largest = max(largest, min(1.0, comparisons[i].p * (len(comparisons) - position)))
        corrected[i] = largest
    together = f", corrected for {len(comparisons)} comparisons" if len(comparisons) > 1 else ""
    tests = []
    for pair, p in zip(comparisons, corrected, strict=True):
        (first, other), is_significant = pair.names, p < LEVEL
        by = f"(p = {p:.2g}, {pair.test}{together})"
        if is_significant:
            speed = pair.times_faster
            speedup = "" if speed is None else f": {speed:.3g} times as fast"
            text = f"{other} differ from {first}{speedup} {by}"
        else:
            text = f"no significant difference between {other} and {first} "
            text += f"with {pair.runs} runs each {by}"
            if pair.detectable is not None and pair.least_p < LEVEL:
                text += f": they could show a difference of {percent(pair.detectable, 0)} or more"
            if pair.needed is not None:
                text += f"; {pair.needed} runs each would show it, "
                text += "if the true difference is the one seen"
        test = SignificanceTest(
            p,
            is_significant,
            pair.detectable,
            pair.needed,
            text,
            times_faster=pair.times_faster,
            test=pair.test,
            can_tell=pair.least_p * len(comparisons) < LEVEL,
            times_faster_low=pair.interval[0],
            times_faster_high=pair.interval[1],
        )
        tests.append(test)
    return tests


def mann_whitney(some: Sequence[float], others: Sequence[float]) -> float:
    """Return the p-value of the two-sided Mann-Whitney test, ties counted as half."""
    ranks = doubled_ranks([*some, *others])
    size, total = len(some), len(ranks)
    off = abs(sum(ranks[:size]) - size * (total + 1))
    if size * (total - size) <= 144:
        sums = _count_sums(tuple(sorted(ranks)), size)
        as_far = sum(n for value, n in sums.items() if abs(value - size * (total + 1)) >= off)
        return as_far / math.comb(total, size)
    # For more pairs of runs, the sum of ranks is approximately normal.
    ties = sum(count**3 - count for count in Counter(ranks).values())
    variance = size * (total - size) / 12 * (total + 1 - ties / (total * (total - 1)))
    if not variance:
        return 1.0
    # Ranks are doubled; half a rank is the correction for continuity.
    return min(1.0, 2 * _NORMAL.cdf(-max(0.0, off / 2 - 0.5) / math.sqrt(variance)))


@lru_cache(maxsize=64)  # Without ties, ranks are the same for all groups of these sizes.
def _count_sums(ranks: tuple[int, ...], size: int) -> Mapping[int, int]:
    """Count the choices of ``size`` ranks by their sum."""
    sums = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for value, count in sums[chosen - 1].items():
                sums[chosen][value + rank] += count
    return sums[size]


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 1 on; equal ones share the mean of theirs."""
    ranked = sorted(values)
    return [bisect_left(ranked, value) + bisect_right(ranked, value) + 1 for value in values]
