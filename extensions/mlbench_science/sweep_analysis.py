"""Analysis of sweeps: the frontier of algorithms, and the importance of options.

The frontier has the bandwidths at which one algorithm overtakes another. The performance profiles
are by Dolan and Moré (2002), with the limit of AlgoPerf (Dahl et al. 2023, Benchmarking Neural
Network Training Algorithms).

The importance of an option is a rank correlation. It covers any monotonic effect, and a run that
missed its target counts as the slowest. Its interval is Fisher's with the variance of Bonett and
Wright (2000), "Sample size requirements for estimating Pearson, Kendall and Spearman correlations";
a test simulates its coverage.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from operator import itemgetter
from random import Random
from statistics import StatisticsError, correlation, fmean, median

from mlbench.contract.humanize import count
from mlbench.contract.results import Result
from mlbench.contract.sweeps import (
    Axis,
    Crossing,
    Frontier,
    Importance,
    PerformanceProfile,
    SetPoint,
)
from mlbench.evaluation import statistics
from mlbench.evaluation.statistics import (
    CONFIDENCE,
    Interval,
    doubled_ranks,
    log_mean,
    t_quantile,
)
from mlbench.evaluation.sweeps import keys_of

# --- Frontier of algorithms ---

_BANDWIDTH = "bandwidth"
# These swept options belong to the workload, not to the algorithm.
_CONDITIONS = ("latency", "loss", "cpus")
# AlgoPerf's limit: an algorithm that takes 4 times as long as the fastest gets no credit.
_MAX_RATIO = 4.0


@dataclass(frozen=True)
class Workload:
    """Conditions under which every algorithm is measured."""

    where: str
    """Everything but the bandwidth, such as ``2 workers``."""
    bandwidth: float | None
    """Bandwidth in Mbit/s; None if unlimited, which has no place on the axis."""


@dataclass(frozen=True)
class Timed:
    """A run's time to target; None if it did not reach the target."""

    algorithm: str
    workload: Workload
    seconds: float | None


def timed(results: Sequence[Result]) -> list[Timed]:
    """Return the runs of a sweep over bandwidth and algorithms; empty for other sweeps."""
    keys = keys_of(results)
    algorithm_keys = [key for key in keys if key not in (_BANDWIDTH, *_CONDITIONS)]
    if _BANDWIDTH not in keys or not algorithm_keys:
        return []
    runs = []
    for result in results:
        options = result.swept
        # A single option needs no name.
        algorithm = " ".join(
            f"{key} {options[key]}" if algorithm_keys[1:] else options[key]
            for key in algorithm_keys
        )
        conditions = [f"{key} {options[key]}" for key in _CONDITIONS if key in options]
        where = ", ".join([count(result.num_workers, "worker"), *conditions])
        try:
            bandwidth = float(options[_BANDWIDTH])
        except ValueError:  # The value is ``none``.
            bandwidth = math.inf
        limit = bandwidth if 0 < bandwidth < math.inf else None
        runs.append(Timed(algorithm, Workload(where, limit), result.seconds_to_target))
    return runs


def frontier(results: Sequence[Result]) -> Frontier | None:
    """Compare the algorithms of a sweep over bandwidths.

    None if there are fewer than two algorithms or bandwidths, or no workload that all algorithms
    had.
    """
    runs = timed(results)
    bandwidths = {run.workload.bandwidth for run in runs}
    if min(len({run.algorithm for run in runs}), len(bandwidths)) < 2:
        return None
    performance = profiles(runs)
    return Frontier(crossings(runs), performance) if performance else None


def crossings(runs: Sequence[Timed]) -> tuple[Crossing, ...]:
    """Return the bandwidths at which one algorithm overtakes another.

    A crossing whose interval has no end is left out.
    """
    random = Random(0)  # noqa: S311 - no secret
    distinct: list[Crossing] = []
    for where in dict.fromkeys(run.workload.where for run in runs):
        lines: dict[str, dict[float, list[float | None]]] = {}
        for run in runs:
            bandwidth = run.workload.bandwidth
            if run.workload.where == where and bandwidth is not None:
                points = lines.setdefault(run.algorithm, {})
                points.setdefault(bandwidth, []).append(run.seconds)
        logs: dict[str, dict[float, _Logs]] = {}
        for algorithm, points in lines.items():
            logs[algorithm] = {}
            for bandwidth, seconds in sorted(points.items(), key=itemgetter(0)):
                mean_seconds = statistics.mean(statistics.missed_as_slowest(seconds))
                mean = math.log(mean_seconds) if mean_seconds > 0 else -math.inf
                times = [time for time in seconds if time is not None and time > 0]
                possible_means: list[float] = []
                if len(times) >= max(len(seconds), statistics.ENOUGH):
                    estimate = log_mean(times)
                    for _ in range(1000):
                        chi_squared = random.gammavariate(estimate.freedom / 2, 2)
                        spread = math.sqrt(chi_squared / estimate.freedom)
                        error = estimate.error * random.gauss(0.0, 1.0) / spread
                        possible_means.append(estimate.value + error)
                logs[algorithm][bandwidth] = _Logs(mean, possible_means)
        for below, above in permutations(logs, 2):
            distinct += _crossings(where, (below, above), logs)
    return tuple(sorted(distinct, key=lambda crossing: (crossing.where, crossing.bandwidth)))


def profiles(runs: Sequence[Timed]) -> tuple[PerformanceProfile, ...]:
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
    performance = []
    for algorithm in algorithms if medians else ():
        ratios = []
        for workload in medians:
            own, best = workload[algorithm], min(workload.values())
            ratios.append(own / best if math.isfinite(own) else math.inf)
        ratios.sort()
        # Each workload adds a step at its ratio: the score is the area below all, from 1 to 4.
        score = fmean(max(0.0, _MAX_RATIO - ratio) / (_MAX_RATIO - 1) for ratio in ratios)
        finite = tuple(ratio if math.isfinite(ratio) else None for ratio in ratios)
        performance.append(PerformanceProfile(algorithm, finite, score))
    return tuple(performance)


@dataclass(frozen=True)
class _Logs:
    """Logarithms of times to target at one bandwidth."""

    mean: float
    drawn: Sequence[float]
    """Possible means, given the runs; empty for too few runs, or a missed target."""


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
        low: float | None = None
        high: float | None = None
        interval = "too few runs for an interval"
        if all(drawn):
            # A drawn crossing is the rise nearest to this one. Without a rise, it is infinite, on
            # the side on which the lines must cross.
            drawn_xs = []
            after = next(i for i, other in enumerate(xs) if other >= x)
            for ds in zip(*drawn, strict=True):
                side = math.inf if ds[after] < 0 else -math.inf
                rises = _rises(xs, ds)
                drawn_xs.append(min(rises, key=lambda rise: abs(rise - x), default=side))
            # The interval contains 95 % of the drawn crossings. An infinite end is unknown.
            ranked = sorted(drawn_xs)
            outside = round(len(ranked) * (1 - CONFIDENCE) / 2)
            ends = ranked[outside], ranked[-1 - outside]
            low, high = (math.exp(end) if math.isfinite(end) else None for end in ends)
            if low is None and high is None:
                continue
            first = f"less than {shared[0]:g}" if low is None else f"{low:.3g}"
            last = f"more than {shared[-1]:g}" if high is None else f"{high:.3g}"
            interval = f"95 %: {first} to {last}"
        rivals = [_at(x, line) for name, line in lines.items() if name not in names]
        bandwidth = math.exp(x)
        overtakes = f"{where}: {names[1]} overtakes {names[0]} at {bandwidth:.3g} Mbit/s"
        yield Crossing(
            where,
            *names,
            bandwidth,
            low,
            high,
            on_frontier=_at(x, below) <= min(rivals, default=math.inf),
            text=f"{overtakes} ({interval})",
        )


def _rises(xs: Sequence[float], ds: Sequence[float]) -> Iterator[float]:
    """Yield where lines between points rise through zero."""
    for (x0, d0), (x1, d1) in pairwise(zip(xs, ds, strict=True)):
        if -math.inf < d0 < 0 <= d1 < math.inf:
            yield x0 + (x1 - x0) * d0 / (d0 - d1)


def _at(x: float, line: Mapping[float, _Logs]) -> float:
    """Return the logarithm of a time between measured bandwidths; infinite outside of them."""
    points = [(math.log(bandwidth), logs.mean) for bandwidth, logs in line.items()]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return math.inf


# --- Importance of options ---

# The interval of a correlation over fewer runs would cover nearly everything.
_MIN_RUNS = 5


def importances(
    axes: Sequence[Axis], points: Sequence[SetPoint], *, by_time: bool
) -> tuple[tuple[Importance, ...], str]:
    """Return the correlations of the runs' figure with the options, strongest first, in words too.

    A numeric option has one correlation, and each value of another option has its own. With
    ``by_time``, the figure is a time, and a run without it missed its target.
    """
    shown = [point for point in points if by_time or point.figure is not None]
    figures = [math.inf if point.figure is None else point.figure for point in shown]
    correlations = []
    for i, axis in enumerate(axes):
        settings = [point.values[i] for point in shown]
        if axis.numbers:
            number = dict(zip(axis.values, axis.numbers, strict=True))
            levels = {"": [number[value] for value in settings]}
        else:
            # With two values, the presence of one is the absence of the other.
            values = axis.values[1:] if len(axis.values) == 2 else axis.values
            levels = {value: [float(setting == value) for setting in settings] for value in values}
        for value, numbers in levels.items():
            rho = spearman(numbers, figures)
            if rho is not None:
                ends = interval(rho, len(shown))
                correlations.append(Importance(axis.key, value, rho, *ends, len(shown)))
    strongest_first = tuple(sorted(correlations, key=lambda item: -abs(item.correlation)))
    return strongest_first, _describe(strongest_first)


def spearman(some: Sequence[float], others: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, ties by their mean rank; None if all of one are equal."""
    try:
        return correlation(doubled_ranks(some), doubled_ranks(others))
    except StatisticsError:
        return None


def interval(rho: float, runs: int) -> Interval:
    """Return the interval of the true rank correlation; unknown for fewer than five runs."""
    if runs < _MIN_RUNS:
        return None, None
    # Complete agreement shows no spread, so half of the smallest disagreement takes its place.
    most = 1 - 6 / (runs * (runs**2 - 1))
    middle = max(-most, min(most, rho))
    error = math.sqrt((1 + middle**2 / 2) / (runs - 3))
    width = t_quantile((1 + CONFIDENCE) / 2, runs - 2) * error
    low, high = (math.tanh(math.atanh(middle) + off) for off in (-width, width))
    return (low if rho > -1 else -1.0), (high if rho < 1 else 1.0)


def _describe(importances: Sequence[Importance]) -> str:
    """Say which option matters most, if the runs show it."""
    if not importances:
        return "Too few runs have ended to see what matters"
    first, *others = importances
    if first.low is None or first.high is None or first.low <= 0 <= first.high:
        return f"Nothing can be told from chance with {count(first.runs, 'run')}"
    least = min(abs(first.low), abs(first.high))
    rivals = [item for item in others if item.key != first.key and abs(item.correlation) >= least]
    if rivals:
        keys = dict.fromkeys(effect.key for effect in (first, *rivals))
        return f"{' or '.join(keys)} matters most: which of them cannot be told yet"
    return f"{first.key} matters most"
