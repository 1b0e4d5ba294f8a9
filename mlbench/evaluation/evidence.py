"""Evidence: whether the runs of two groups differ, and how many runs it takes to show that.

Groups whose runs had the same seeds are compared seed by seed: Student's t of the logarithms of
each two runs' quotient. Other groups are compared by a Mann-Whitney test, which assumes nothing
about how times are distributed. Of several comparisons at once, p is corrected by Holm's method
("A simple sequentially rejective multiple test procedure", 1979).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, stdev
from typing import Literal

from mlbench.contract.comparisons import Evidence
from mlbench.evaluation.intervals import t_probability

_LEVEL = 0.05
# How often a difference shall be found that is there.
_POWER = 0.8
# The test by ranks needs a little more runs than one by means, if those were normal: 3 / pi.
_EFFICIENCY = 3 / math.pi
# Of fewer runs each, not even complete separation has p < 0.05 by ranks; a spread takes three.
_FEWEST: Mapping[str, int] = {"Mann-Whitney": 4, "paired t": 3}
# What is less is not computed well, and means the same.
_LEAST = 1e-9
# Nobody would run more for a difference that small.
_MOST = 100
# Up to so many pairs of runs, all rankings are counted; beyond, they are as good as normal.
_EXACT_PAIRS = 144
_NORMAL = NormalDist()

Seeds = Sequence[Hashable]
"""The seed of each run of a group; None for one that has none."""


@dataclass(frozen=True)
class Pair:
    """Two groups that a test compares."""

    names: tuple[str, str]
    test: Literal["Mann-Whitney", "paired t"]
    p: float
    runs: int
    """Of the smaller group."""
    spread: float | None
    """The standard deviation of a run, or of a pair's difference, relative to the mean."""
    difference: float | None
    """By how much the means differ, relative to the first."""
    times_as_fast: float | None
    least_p: float
    """The smallest that the test has for so many runs, however much they differ."""

    @property
    def detectable(self) -> float | None:
        """The smallest relative difference that so many runs show in four of five cases."""
        return None if self.spread is None else self.spread * math.sqrt(self._factor / self.runs)

    @property
    def needed(self) -> int | None:
        """How many runs of each group would show the difference seen, if it were the true one."""
        if self.spread is None or not self.difference:
            return None
        runs = math.ceil(self._factor * (self.spread / self.difference) ** 2)
        return max(_FEWEST[self.test], runs) if runs <= _MOST else None

    @property
    def _factor(self) -> float:
        """The runs that show a difference of one standard deviation."""
        distance = _NORMAL.inv_cdf(1 - _LEVEL / 2) + _NORMAL.inv_cdf(_POWER)
        return distance**2 * (1 if self.test == "paired t" else 2 / _EFFICIENCY)


def hold_against(
    first: Sequence[float],
    other: Sequence[float],
    names: tuple[str, str],
    times_as_fast: float | None = None,
    seeds: tuple[Seeds, Seeds] = ((), ()),
) -> Pair | None:
    """Compare two groups by a figure of each run; None if one of them has fewer than two runs.

    A figure is infinite for a goal not reached. ``times_as_fast`` is how many times as fast the
    other group is by its mean; ``seeds`` are those of the runs, empty where they are not known.
    """
    if min(len(first), len(other)) < 2:
        return None
    difference = _difference(first, other)
    if quotients := _by_seed(first, other, seeds):
        spread, runs = stdev(quotients), len(quotients)
        t = abs(fmean(quotients)) * math.sqrt(runs) / spread if spread else math.inf
        p = max(2 * (1 - t_probability(t, runs - 1)), _LEAST) if any(quotients) else 1.0
        return Pair(names, "paired t", p, runs, spread, difference, times_as_fast, 0.0)
    p, runs = mann_whitney(first, other), min(len(first), len(other))
    of_runs = None if difference is None else _spread(first, other)
    least = 2 / math.comb(len(first) + len(other), len(first))
    return Pair(names, "Mann-Whitney", p, runs, of_runs, difference, times_as_fast, least)


def judge(comparisons: Sequence[Pair]) -> list[Evidence]:
    """Judge comparisons that are made at once, so that of equal groups 1 set in 20 is told."""
    return [
        Evidence(
            p,
            p < _LEVEL,
            pair.detectable,
            pair.needed,
            _describe(pair, p, len(comparisons)),
            times_as_fast=pair.times_as_fast,
            test=pair.test,
            can_tell=pair.least_p * len(comparisons) < _LEVEL,
        )
        for pair, p in zip(comparisons, _corrected([pair.p for pair in comparisons]), strict=True)
    ]


def _corrected(ps: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests by Holm's method."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    found, largest = [0.0] * len(ps), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, ps[i] * (len(ps) - place)))
        found[i] = largest
    return found


def _by_seed(
    first: Sequence[float], other: Sequence[float], seeds: tuple[Seeds, Seeds]
) -> list[float]:
    """Return the logarithm of each seed's quotient; none unless both had the same seeds once."""
    mine, theirs = set(seeds[0]), set(seeds[1])
    once = len(mine) == len(first) == len(other) == len(theirs) >= _FEWEST["paired t"]
    are_known = mine == theirs and None not in mine
    if not (once and are_known and all(0 < x < math.inf for x in (*first, *other))):
        return []
    of_first = dict(zip(seeds[0], first, strict=True))
    return [math.log(x / of_first[seed]) for seed, x in zip(seeds[1], other, strict=True)]


def mann_whitney(some: Sequence[float], others: Sequence[float]) -> float:
    """Return the p-value of the two-sided Mann-Whitney test, ties counted as half."""
    ranks = doubled_ranks([*some, *others])
    size, total = len(some), len(ranks)
    off = abs(sum(ranks[:size]) - size * (total + 1))
    if size * (total - size) > _EXACT_PAIRS:
        return _by_normal(ranks, size, off)
    sums = _count_sums(tuple(sorted(ranks)), size)
    as_far = sum(n for value, n in sums.items() if abs(value - size * (total + 1)) >= off)
    return as_far / math.comb(total, size)


@lru_cache(maxsize=64)  # without ties, ranks are the same for all groups of these sizes
def _count_sums(ranks: tuple[int, ...], size: int) -> Mapping[int, int]:
    """Return how many choices of so many ranks have which sum."""
    sums = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for value, count in sums[chosen - 1].items():
                sums[chosen][value + rank] += count
    return sums[size]


def _by_normal(ranks: Sequence[int], size: int, off: int) -> float:
    total = len(ranks)
    ties = sum(count**3 - count for count in Counter(ranks).values())
    variance = size * (total - size) / 12 * (total + 1 - ties / (total * (total - 1)))
    if not variance:
        return 1.0
    # Ranks are doubled; half a rank is the correction for continuity.
    return min(1.0, 2 * _NORMAL.cdf(-max(0.0, off / 2 - 0.5) / math.sqrt(variance)))


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 1 on; equal ones share the mean of theirs."""
    ranked = sorted(values)
    return [bisect_left(ranked, one) + bisect_right(ranked, one) + 1 for one in values]


def _difference(first: Sequence[float], other: Sequence[float]) -> float | None:
    """Return by how much the means differ, relative to the first; None if not known."""
    if not all(map(math.isfinite, [*first, *other])) or not (fmean(first) and fmean(other)):
        return None
    return abs(fmean(other) / fmean(first) - 1)


def _spread(first: Sequence[float], other: Sequence[float]) -> float:
    """Return the standard deviation of a run relative to its group's mean."""
    return math.sqrt(fmean((stdev(group) / fmean(group)) ** 2 for group in (first, other)))


def _describe(pair: Pair, p: float, comparisons: int) -> str:
    first, other = pair.names
    corrected = f", corrected for {comparisons} comparisons" if comparisons > 1 else ""
    by = f"(p = {p:.2g}, {pair.test}{corrected})"
    if p < _LEVEL:
        how = "" if pair.times_as_fast is None else f": {pair.times_as_fast:.3g} times as fast"
        return f"{other} differ from {first}{how} {by}"
    text = f"no significant difference between {other} and {first} with {pair.runs} runs each {by}"
    if pair.detectable is not None and pair.least_p < _LEVEL:
        text += f": so many show a difference of {pair.detectable:.0%}"
    if pair.needed is not None:
        text += f"; {pair.needed} runs each would show it, if the true difference is the one seen"
    return text
