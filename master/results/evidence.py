"""Evidence: whether the runs of two groups differ, and how many runs would tell."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, groupby
from statistics import NormalDist, fmean, stdev

from mlbench.results import Evidence

_LEVEL = 0.05
# How often a difference shall be found that is there.
_POWER = 0.8
# The test by ranks needs a little more runs than one by means, if those were normal: 3 / pi.
_EFFICIENCY = 3 / math.pi
# Of fewer runs each, not even complete separation has p < 0.05.
_FEWEST = 4
# Nobody would run more for a difference that small.
_MOST = 100
# Up to so many pairs of runs, all rankings are counted; beyond, they are as good as normal.
_EXACT_PAIRS = 144
_NORMAL = NormalDist()


def judge(
    first: Sequence[float],
    other: Sequence[float],
    names: tuple[str, str],
    times_as_fast: float | None = None,
) -> Evidence | None:
    """Judge how two groups differ in a figure; None if one of them has fewer than two runs.

    Args:
        first: the figure of each run of the first group; infinite for a goal not reached.
        other: that of the other group's.
        names: the labels of the two.
        times_as_fast: how many times as fast the other is by its mean, if that is known.
    """
    if min(len(first), len(other)) < 2:  # noqa: PLR2004 - a spread takes two
        return None
    p = mann_whitney(first, other)
    spread = _spread(first, other)
    each = 2 / (1 / len(first) + 1 / len(other))
    detectable = None if spread is None else spread * math.sqrt(_factor() / each)
    needed = _runs_needed(first, other, spread)
    return Evidence(
        p,
        p < _LEVEL,
        detectable,
        needed,
        _describe(names, p, min(len(first), len(other)), detectable, needed, times_as_fast),
        times_as_fast=times_as_fast,
    )


def mann_whitney(some: Sequence[float], others: Sequence[float]) -> float:
    """Return the p-value of the two-sided Mann-Whitney test, ties counted as half."""
    ranks = _doubled_ranks([*some, *others])
    size, total = len(some), len(ranks)
    off = abs(sum(ranks[:size]) - size * (total + 1))
    if size * (total - size) > _EXACT_PAIRS:
        return _by_normal(ranks, size, off)
    # How many choices of so many ranks have which sum.
    sums = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for value, count in sums[chosen - 1].items():
                sums[chosen][value + rank] += count
    as_far = sum(n for value, n in sums[size].items() if abs(value - size * (total + 1)) >= off)
    return as_far / math.comb(total, size)


def _by_normal(ranks: Sequence[int], size: int, off: int) -> float:
    total = len(ranks)
    ties = sum(count**3 - count for count in Counter(ranks).values())
    variance = size * (total - size) / 12 * (total + 1 - ties / (total * (total - 1)))
    if not variance:
        return 1.0
    # Ranks are doubled; half a rank is the correction for continuity.
    return min(1.0, 2 * _NORMAL.cdf(-max(0.0, off / 2 - 0.5) / math.sqrt(variance)))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 1 on; equal ones share the mean of theirs."""
    counts = [len(list(same)) for _, same in groupby(sorted(values))]
    ends = list(accumulate(counts))
    ranks = {
        value: 2 * end - count + 1
        for value, end, count in zip(sorted(set(values)), ends, counts, strict=True)
    }
    return [ranks[value] for value in values]


def _spread(first: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the standard deviation of a run relative to its group's mean; None if not known."""
    if not all(map(math.isfinite, [*first, *other])) or not (fmean(first) and fmean(other)):
        return None
    return math.sqrt(fmean((stdev(group) / fmean(group)) ** 2 for group in (first, other)))


def _factor() -> float:
    """Return the runs of each group, for a difference of one standard deviation."""
    distance = _NORMAL.inv_cdf(1 - _LEVEL / 2) + _NORMAL.inv_cdf(_POWER)
    return 2 * distance**2 / _EFFICIENCY


def _runs_needed(
    first: Sequence[float], other: Sequence[float], spread: float | None
) -> int | None:
    if spread is None or fmean(first) == fmean(other):
        return None
    difference = abs(fmean(other) / fmean(first) - 1)
    needed = max(_FEWEST, math.ceil(_factor() * (spread / difference) ** 2))
    return needed if needed <= _MOST else None


def _describe(
    names: tuple[str, str],
    p: float,
    runs: int,
    detectable: float | None,
    needed: int | None,
    times: float | None,
) -> str:
    first, other = names
    if p < _LEVEL:
        how = "" if times is None else f": {times:.3g} times as fast"
        return f"{other} differ from {first}{how} (p = {p:.2g}, Mann-Whitney)"
    said = f"{other} cannot be told from {first} with {runs} runs each (p = {p:.2g}, Mann-Whitney)"
    if runs < _FEWEST:
        said += f": fewer than {_FEWEST} never tell"
    elif detectable is not None:
        said += f": so many show a difference of {detectable:.0%}"
    if needed is not None:
        said += f"; {needed} runs each would show the one seen"
    return said
