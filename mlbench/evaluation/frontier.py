"""The frontier: at which bandwidth one algorithm overtakes another, and how close each comes.

Performance profiles are those of Dolan and Moré (2002), as AlgoPerf has them (Dahl et al. 2023,
Benchmarking Neural Network Training Algorithms).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from random import Random
from statistics import fmean, median

from mlbench.contract.results import Result
from mlbench.contract.sweeps import Crossing, Frontier, Profile
from mlbench.contract.words import count
from mlbench.evaluation import statistics
from mlbench.evaluation.statistics import CONFIDENCE, Interval, log_mean
from mlbench.evaluation.sweeps import keys_of

_BANDWIDTH = "bandwidth"
# What else is swept that is no part of an algorithm.
_CONDITIONS = ("latency", "loss", "cpus")
# AlgoPerf's: who takes longer than that is too slow to count.
_MOST = 4.0
# Draws of the means that runs may have, for the interval of a crossing.
_DRAWS = 1000


@dataclass(frozen=True)
class Workload:
    """What every algorithm has to do."""

    where: str
    """All but the bandwidth, in words, such as ``2 workers``."""
    bandwidth: float | None
    """Mbit/s; None if it is not limited, which is no place on the axis."""


@dataclass(frozen=True)
class Timed:
    """A run's time to accuracy; None if it did not reach the goal."""

    algorithm: str
    workload: Workload
    seconds: float | None


def timed(results: Sequence[Result]) -> list[Timed]:
    """Return the runs of a sweep over bandwidth and what tells algorithms apart; [] for others."""
    keys = keys_of(results)
    algorithm = [key for key in keys if key not in (_BANDWIDTH, *_CONDITIONS)]
    if _BANDWIDTH not in keys or not algorithm:
        return []
    return [_timed(result, algorithm) for result in results]


def _timed(result: Result, keys: Sequence[str]) -> Timed:
    # A single key goes without saying.
    name = " ".join(f"{key} {result.swept[key]}" if keys[1:] else result.swept[key] for key in keys)
    others = [f"{key} {result.swept[key]}" for key in _CONDITIONS if key in result.swept]
    where = ", ".join([count(result.num_workers, "worker"), *others])
    workload = Workload(where, _mbits(result.swept[_BANDWIDTH]))
    return Timed(name, workload, result.seconds_to_accuracy)


def _mbits(text: str) -> float | None:
    """Read a bandwidth; None for ``none``, and for what no order can have."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < math.inf else None


def frontier(runs: Sequence[Timed]) -> Frontier | None:
    """Compare algorithms over bandwidths.

    None if there are fewer than two of one or the other, or no workload that all algorithms had.
    """
    bandwidths = {run.workload.bandwidth for run in runs}
    if min(len({run.algorithm for run in runs}), len(bandwidths)) < 2:
        return None
    found = profiles(runs)
    return Frontier(crossings(runs), found) if found else None


def crossings(runs: Sequence[Timed]) -> tuple[Crossing, ...]:
    """Return where one algorithm overtakes another, if the runs tell so.

    Of a crossing whose interval has no end, they tell nothing.
    """
    draw = Random(0)  # noqa: S311 - no secret
    distinct: list[Crossing] = []
    for where in dict.fromkeys(run.workload.where for run in runs):
        lines: dict[str, dict[float, list[float | None]]] = {}
        for run in runs:
            bandwidth = run.workload.bandwidth
            if run.workload.where == where and bandwidth is not None:
                points = lines.setdefault(run.algorithm, {})
                points.setdefault(bandwidth, []).append(run.seconds)
        logs = {
            algorithm: {bandwidth: _logs(points[bandwidth], draw) for bandwidth in sorted(points)}
            for algorithm, points in lines.items()
        }
        for below, above in permutations(logs, 2):
            distinct += _crossings(where, (below, above), logs)
    return tuple(sorted(distinct, key=lambda crossing: (crossing.where, crossing.bandwidth)))


def profiles(runs: Sequence[Timed]) -> tuple[Profile, ...]:
    """Return the performance profile of each algorithm, over the workloads that all of them had."""
    times: dict[Workload, dict[str, list[float]]] = {}
    for run in runs:
        seconds = math.inf if run.seconds is None else run.seconds
        times.setdefault(run.workload, {}).setdefault(run.algorithm, []).append(seconds)
    algorithms = dict.fromkeys(run.algorithm for run in runs)
    medians = [
        {algorithm: median(seconds) for algorithm, seconds in by_algorithm.items()}
        for by_algorithm in times.values()
        if len(by_algorithm) == len(algorithms)
    ]
    profiles_of = [
        _profile(name, [(of[name], min(of.values())) for of in medians]) for name in algorithms
    ]
    return tuple(profiles_of) if medians else ()


def _profile(algorithm: str, times: Sequence[tuple[float, float]]) -> Profile:
    """Return a profile from pairs of an algorithm's time and that of the fastest."""
    ratios = sorted(own / best if math.isfinite(own) else math.inf for own, best in times)
    # Each workload adds a step at its ratio: the area below them all, from 1 to 4.
    score = fmean(max(0.0, _MOST - ratio) / (_MOST - 1) for ratio in ratios)
    known = (ratio if math.isfinite(ratio) else None for ratio in ratios)
    return Profile(algorithm, tuple(known), score)


@dataclass(frozen=True)
class _Logs:
    """Logarithms of times to accuracy at one bandwidth."""

    mean: float
    drawn: Sequence[float]
    """Means that there may be, as the runs tell; empty for too few runs, or a missed goal."""


def _logs(seconds: Sequence[float | None], draw: Random) -> _Logs:
    times = [one for one in seconds if one is not None and one > 0]
    mean_seconds = statistics.mean_of_times(seconds)
    mean = math.log(mean_seconds) if mean_seconds > 0 else -math.inf
    if len(times) < max(len(seconds), statistics.ENOUGH):
        return _Logs(mean, ())
    found = log_mean(times)
    return _Logs(mean, [found.draw(draw) for _ in range(_DRAWS)])


def _crossings(
    where: str, names: tuple[str, str], lines: Mapping[str, Mapping[float, _Logs]]
) -> Iterator[Crossing]:
    below, above = (lines[name] for name in names)
    shared = [bandwidth for bandwidth in below if bandwidth in above]
    xs = [math.log(bandwidth) for bandwidth in shared]
    pairs = [(below[bandwidth], above[bandwidth]) for bandwidth in shared]
    drawn = [
        [draw - other for draw, other in zip(some.drawn, others.drawn, strict=False)]
        for some, others in pairs
    ]
    for x in _rises(xs, [some.mean - others.mean for some, others in pairs]):
        low, high = None, None
        if all(drawn):
            low, high = _middle([_nearest(x, xs, ds) for ds in zip(*drawn, strict=True)])
            if low is None and high is None:
                continue
        others = [_at(x, line) for name, line in lines.items() if name not in names]
        crossing = Crossing(
            where,
            *names,
            math.exp(x),
            None if low is None else math.exp(low),
            None if high is None else math.exp(high),
            on_frontier=_at(x, below) <= min(others, default=math.inf),
            text="",
        )
        yield replace(crossing, text=_describe(crossing, shared if all(drawn) else []))


def _middle(drawn: Sequence[float]) -> Interval:
    """Return between what 95 % of draws are; None for an end that is infinite."""
    ranked = sorted(drawn)
    outside = round(len(ranked) * (1 - CONFIDENCE) / 2)
    low, high = ranked[outside], ranked[-1 - outside]
    return (low if math.isfinite(low) else None, high if math.isfinite(high) else None)


def _rises(xs: Sequence[float], ds: Sequence[float]) -> Iterator[float]:
    """Yield where lines between points rise through zero."""
    for (x0, d0), (x1, d1) in pairwise(zip(xs, ds, strict=True)):
        if -math.inf < d0 < 0 <= d1 < math.inf:
            yield x0 + (x1 - x0) * d0 / (d0 - d1)


def _nearest(x: float, xs: Sequence[float], ds: Sequence[float]) -> float:
    """Return the rise that is nearest to ``x``; if there is none, on which side it would be."""
    if found := [*_rises(xs, ds)]:
        return min(found, key=lambda one: abs(one - x))
    after = next(i for i, one in enumerate(xs) if one >= x)
    return math.inf if ds[after] < 0 else -math.inf


def _at(x: float, line: Mapping[float, _Logs]) -> float:
    """Return the logarithm of a time between measured bandwidths; infinite outside of them."""
    points = [(math.log(bandwidth), logs.mean) for bandwidth, logs in line.items()]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return math.inf


def _describe(one: Crossing, measured: Sequence[float]) -> str:
    """Say where a crossing is, with what was measured if there were enough runs for an interval."""
    told = "too few runs for an interval"
    if measured:
        first = f"less than {measured[0]:g}" if one.low is None else f"{one.low:.3g}"
        last = f"more than {measured[-1]:g}" if one.high is None else f"{one.high:.3g}"
        told = f"95 %: {first} to {last}"
    return f"{one.where}: {one.above} overtakes {one.below} at {one.bandwidth:.3g} Mbit/s ({told})"
