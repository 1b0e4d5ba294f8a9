"""Sweeps: their baselines and panels, the importance of their options, and the frontier.

The importance of an option is a rank correlation. It takes any monotonic effect, and a run that
missed its goal counts as the slowest. Its interval is Fisher's with the variance of Bonett and
Wright (2000), "Sample size requirements for estimating Pearson, Kendall and Spearman correlations";
a test simulates its coverage.

The frontier tells at which bandwidth one algorithm overtakes another, and how close each comes.
Performance profiles are those of Dolan and Moré (2002), as AlgoPerf has them (Dahl et al. 2023,
Benchmarking Neural Network Training Algorithms).
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product
from random import Random
from statistics import StatisticsError, correlation, fmean, median

from mlbench.contract import palette
from mlbench.contract.comparisons import Evidence, Group
from mlbench.contract.records import RunSet, SetPlace
from mlbench.contract.results import Result, Summary
from mlbench.contract.runspec import NETWORK_UNITS
from mlbench.contract.sweeps import (
    Axis,
    Cell,
    Chart,
    Crossing,
    Effect,
    Frontier,
    Panel,
    Profile,
    SetAnalysis,
    SetPoint,
    Sweep,
)
from mlbench.contract.words import count, swept
from mlbench.evaluation import statistics
from mlbench.evaluation.statistics import CONFIDENCE, Interval, doubled_ranks, log_mean, t_quantile

# --- Baselines and panels ---

WORKERS = "workers"
_WIDE = 8
# So many sentences on evidence can be read; of more, there is one.
_FEW = 5


@dataclass(frozen=True)
class SweepPoint:
    """The workers of a group, and the values that its set sweeps."""

    num_workers: int
    swept: Mapping[str, str]


def keys_of(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the options that all results sweep; empty if they sweep different ones."""
    keys = tuple(results[0].swept)
    return keys if all({*one.swept} == {*keys} for one in results) else ()


def in_order(points: Sequence[SweepPoint]) -> list[int]:
    """Return the indices of combinations, sorted by their values and then by workers."""
    ranks = _ranks(points)
    return sorted(
        range(len(points)),
        key=lambda i: (
            [ranks[key].index(value) for key, value in points[i].swept.items()],
            points[i].num_workers,
        ),
    )


def fewest_workers(points: Sequence[SweepPoint], index: int) -> int:
    """Return the first with the same values: that with the fewest workers, if in order."""
    return next(i for i, one in enumerate(points) if one.swept == points[index].swept)


def baseline(points: Sequence[SweepPoint], index: int) -> tuple[int, str]:
    """Return what a combination is compared with, which may be itself, and in what that differs.

    It has as many workers, and the first value of the first key of which the combination has a
    later one, such as ``exchange flat``. Where there is none, it is the one with the fewest
    workers, and differs in nothing else.
    """
    point = points[index]
    for key, (first, *_) in _ranks(points).items():
        wanted = SweepPoint(point.num_workers, {**point.swept, key: first})
        if point.swept[key] != first and wanted in points:
            return points.index(wanted), f"{key} {first}"
    return fewest_workers(points, index), ""


def _ranks(points: Sequence[SweepPoint]) -> dict[str, list[str]]:
    """Return the distinct values of each key, in the order in which they come first."""
    return {key: list(dict.fromkeys(one.swept[key] for one in points)) for key in points[0].swept}


def lay_out(
    points: Sequence[SweepPoint | Group], evidence: Sequence[Evidence] = ()
) -> Sweep | None:
    """Return the panels of sorted combinations; None if they do not differ in a key.

    A limit of the network goes across, or else the first key of numbers; so a line is the course
    of a figure over it. What is not a row or a column either has a panel for each value.
    """
    places = [coordinates(point) for point in points]
    varied = axes_of(places)
    if not varied.keys() - {WORKERS}:
        return None
    numeric = [key for key, axis in varied.items() if axis.numbers]
    of_network = (key for key in NETWORK_UNITS if key in numeric)
    across = next(iter([*of_network, *numeric, [*varied][-1]]))
    rest = [key for key in varied if key != across]
    by = varied[rest[0]] if rest else None
    rows = [{by.key: value} for value in by.values] if by else [{}]
    fixed = [
        dict(zip(rest[1:], values, strict=True))
        for values in product(*(varied[key].values for key in rest[1:]))
    ]
    panels = tuple(
        Panel(
            ", ".join(
                count(int(value), "worker") if key == WORKERS else f"{key} {value}"
                for key, value in shared.items()
            ),
            tuple(
                tuple(_find(places, {**shared, **row, across: x}) for x in varied[across].values)
                for row in rows
            ),
        )
        for shared in fixed
    )
    return Sweep(varied[across], by, panels, _in_short(evidence))


def _in_short(evidence: Sequence[Evidence]) -> str:
    if len(evidence) <= _FEW:
        return ""
    differing = sum(one.distinguishable for one in evidence)
    tests = " and ".join(sorted({one.test for one in evidence}))
    return (
        f"{differing} of {len(evidence)} groups differ from their baseline "
        f"(p < 0.05, {tests}, corrected for so many)"
    )


def is_wide_range(least: float, most: float) -> bool:
    """Check if values are seen, and told apart, better by their logarithms."""
    return 0 < least <= most / _WIDE


def coordinates(point: SweepPoint | Group | SetPlace) -> dict[str, str]:
    """Return all that may be varied: the swept values, and the workers."""
    return {**point.swept, WORKERS: str(point.num_workers)}


def axes_of(places: Sequence[Mapping[str, str]]) -> dict[str, Axis]:
    """Return the axes of the keys in which these coordinates differ, the workers' last."""
    keys = {**dict.fromkeys(key for one in places for key in one if key != WORKERS), WORKERS: None}
    axes = {key: _axis(key, [one.get(key, "") for one in places]) for key in keys}
    return {key: axis for key, axis in axes.items() if len(axis.values) > 1}


def _axis(key: str, given: Sequence[str]) -> Axis:
    """Return the axis of a key: its distinct values, in order if they are numbers."""
    values = list(dict.fromkeys(given))
    unit = NETWORK_UNITS.get(key, "")
    try:
        numbers = {value: float(value.removesuffix(unit)) for value in values}
    except ValueError:
        numbers = {}
    if not numbers or not all(map(math.isfinite, numbers.values())):
        return Axis(key, "", tuple(values), None, is_wide=False)
    values.sort(key=lambda value: numbers[value])
    first, last = numbers[values[0]], numbers[values[-1]]
    ascending = tuple(numbers[value] for value in values)
    return Axis(key, unit, tuple(values), ascending, is_wide=is_wide_range(first, last))


def _find(places: Sequence[Mapping[str, str]], wanted: Mapping[str, str]) -> int | None:
    return next((i for i, one in enumerate(places) if wanted.items() <= one.items()), None)


# --- Charts ---


@dataclass(frozen=True)
class Measure:
    """A figure by which what is swept is judged."""

    title: str
    name: str
    unit: str
    field: str
    """Of a group."""
    is_less_better: bool


TIME = Measure(
    "Time to accuracy", "training time to the goal", "s", "training_seconds_to_accuracy", True
)
RATE = Measure("Throughput", "throughput", "samples/s", "samples_per_second", False)


def charts(sweep: Sweep, groups: Sequence[Group]) -> tuple[Chart, ...]:
    """Return the charts of a sweep's groups that have any figure."""
    found = (
        _chart(measure, sweep, panel, groups) for measure in (TIME, RATE) for panel in sweep.panels
    )
    return tuple(chart for chart in found if any(any(row) for row in chart.cells))


def _chart(measure: Measure, sweep: Sweep, panel: Panel, groups: Sequence[Group]) -> Chart:
    keys = " and ".join([sweep.across.key, *([sweep.by.key] if sweep.by else [])])
    rows = [
        [None if i is None else _known(getattr(groups[i], measure.field)) for i in row]
        for row in panel.cells
    ]
    means = [figure.mean or 0.0 for row in rows for figure in row if figure]
    least, most = min(means, default=0.0), max(means, default=0.0)
    is_wide = is_wide_range(least, most)
    worst, best = (most, least) if measure.is_less_better else (least, most)

    def cell(figure: Summary) -> Cell:
        mean = figure.mean or 0.0
        values = (mean, worst, best)
        height, low, high = map(math.log, values) if is_wide else values
        heat = round((len(palette.HEAT) - 1) * (height - low) / (high - low or math.inf))
        return Cell(mean, figure.mean_low, figure.mean_high, heat)

    return Chart(
        ", ".join(filter(None, [f"{measure.title} by {keys}", panel.label])),
        f"{measure.name} [{measure.unit}]",
        measure.unit,
        is_wide,
        tuple(tuple(cell(figure) if figure else None for figure in row) for row in rows),
    )


def _known(figure: Summary | None) -> Summary | None:
    return figure if figure and figure.mean is not None and math.isfinite(figure.mean) else None


# --- Importance of options ---

# With fewer runs, an interval says nothing.
_FEWEST = 5
# Where so many values have no order, two of them have: one is the other's absence.
_TWO = 2


@dataclass(frozen=True)
class RunFigures:
    """What a run of a set took, as far as it is known."""

    seconds_to_goal: float | None = None
    """Of training; None also if it has not reached its goal."""
    samples_per_second: float | None = None
    wall_seconds: float | None = None
    """Since its start, of a run that goes on."""


def analyze(run_set: RunSet, figures: Mapping[int, RunFigures]) -> SetAnalysis:
    """Return how the runs that count did over what their set sweeps, and what is left of it."""
    counted = [
        (place, trial.run_id) for place in run_set.places for trial in place.trials if trial.counts
    ]
    runs = [figures.get(run_id, RunFigures()) for _, run_id in counted]
    by_time = any(run.seconds_to_goal is not None for run in runs)
    measure = TIME if by_time else RATE
    values = [run.seconds_to_goal if by_time else run.samples_per_second for run in runs]
    axes = tuple(axes_of([coordinates(place) for place in run_set.places]).values())
    points = tuple(
        SetPoint(run_id, _name(place), _values(place, axes), value)
        for (place, run_id), value in zip(counted, values, strict=True)
    )
    effects = tuple(
        sorted(_effects(axes, points, by_time=by_time), key=lambda effect: -abs(effect.correlation))
    )
    return SetAnalysis(
        measure=measure.name,
        unit=measure.unit,
        is_less_better=measure.is_less_better,
        axes=axes,
        points=points,
        effects=effects,
        text=_describe_effects(effects),
        places_left=sum(_is_left(place) for place in run_set.places),
        seconds_left=_seconds_left(run_set.places, figures),
    )


def spearman(some: Sequence[float], others: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, ties by their mean rank; None if all of one are equal."""
    try:
        return correlation(doubled_ranks(some), doubled_ranks(others))
    except StatisticsError:
        return None


def interval(rho: float, runs: int) -> Interval:
    """Return between what the true rank correlation lies; not known for fewer than five runs."""
    if runs < _FEWEST:
        return None, None
    # Ranks that agree wholly leave no spread to see: half of the smallest disagreement is taken.
    most = 1 - 6 / (runs * (runs**2 - 1))
    middle = max(-most, min(most, rho))
    error = math.sqrt((1 + middle**2 / 2) / (runs - 3))
    width = t_quantile((1 + CONFIDENCE) / 2, runs - 2) * error
    low, high = (math.tanh(math.atanh(middle) + off) for off in (-width, width))
    return (low if rho > -1 else -1.0), (high if rho < 1 else 1.0)


def _effects(
    axes: Sequence[Axis], points: Sequence[SetPoint], *, by_time: bool
) -> Iterator[Effect]:
    """Yield how the figure goes with each number, and with each value of what has no order."""
    shown = [point for point in points if by_time or point.figure is not None]
    figures = [math.inf if point.figure is None else point.figure for point in shown]
    for i, axis in enumerate(axes):
        given = [point.values[i] for point in shown]
        if axis.numbers:
            number = dict(zip(axis.values, axis.numbers, strict=True))
            levels = {"": [number[value] for value in given]}
        else:
            compared = axis.values[1:] if len(axis.values) == _TWO else axis.values
            levels = {value: [float(setting == value) for setting in given] for value in compared}
        for value, numbers in levels.items():
            rho = spearman(numbers, figures)
            if rho is not None:
                yield Effect(axis.key, value, rho, *interval(rho, len(shown)), len(shown))


def _describe_effects(effects: Sequence[Effect]) -> str:
    """Say what matters most, as far as that can be told."""
    if not effects:
        return "Too few runs have ended to see what matters"
    first, *others = effects
    if first.low is None or first.high is None or first.low <= 0 <= first.high:
        return f"Nothing can be told from chance with {count(first.runs, 'run')}"
    least = min(abs(first.low), abs(first.high))
    rivals = [item for item in others if item.key != first.key and abs(item.correlation) >= least]
    if rivals:
        keys = dict.fromkeys(effect.key for effect in (first, *rivals))
        return f"{' or '.join(keys)} matters most: which of them cannot be told yet"
    return f"{first.key} matters most"


def _values(place: SetPlace, axes: Sequence[Axis]) -> tuple[str, ...]:
    given = coordinates(place)
    return tuple(given.get(axis.key, "") for axis in axes)


def _name(place: SetPlace) -> str:
    workers = count(place.num_workers, "worker")
    return ", ".join(filter(None, [swept(place.swept), workers]))


def _is_left(place: SetPlace) -> bool:
    return place.is_open or place.active is not None


def _seconds_left(places: Sequence[SetPlace], figures: Mapping[int, RunFigures]) -> float | None:
    """Estimate the time of what is left by runs that are alike, or else by all that finished."""
    took: defaultdict[str, list[float]] = defaultdict(list)
    for place in places:
        for trial in place.trials:
            seconds = figures.get(trial.run_id, RunFigures()).wall_seconds
            if trial.state == "FINISHED" and seconds is not None:
                took[_name(place)].append(seconds)
    left = [place for place in places if _is_left(place)]
    if not left:
        return 0.0
    if not took:
        return None
    usual = fmean(seconds for like in took.values() for seconds in like)
    spent = (figures.get(place.active.run_id, RunFigures()) for place in left if place.active)
    gone = sum(min(usual, run.wall_seconds or 0.0) for run in spent)
    return sum(fmean(took.get(_name(place), [usual])) for place in left) - gone


# --- Frontier ---

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
        yield replace(crossing, text=_describe_crossing(crossing, shared if all(drawn) else []))


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


def _describe_crossing(one: Crossing, measured: Sequence[float]) -> str:
    """Say where a crossing is, with what was measured if there were enough runs for an interval."""
    told = "too few runs for an interval"
    if measured:
        first = f"less than {measured[0]:g}" if one.low is None else f"{one.low:.3g}"
        last = f"more than {measured[-1]:g}" if one.high is None else f"{one.high:.3g}"
        told = f"95 %: {first} to {last}"
    return f"{one.where}: {one.above} overtakes {one.below} at {one.bandwidth:.3g} Mbit/s ({told})"
