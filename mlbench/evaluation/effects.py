"""What of a benchmark set matters most, by rank correlations, and how long the rest takes. Pure.

A rank correlation takes any monotonic effect, and a run that missed its goal counts as the slowest.
Its interval is Fisher's with the variance of Bonett and Wright (2000), "Sample size requirements
for estimating Pearson, Kendall and Spearman correlations"; a test simulates that it covers.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation, fmean

from mlbench.contract.records import RunSet, SetPlace
from mlbench.contract.sweeps import Axis, Effect, SetAnalysis, SetPoint
from mlbench.contract.words import count, swept
from mlbench.evaluation.charts import RATE, TIME
from mlbench.evaluation.statistics import CONFIDENCE, Interval, doubled_ranks, t_quantile
from mlbench.evaluation.sweeps import axes_of, coordinates

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
        text=_describe(effects),
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


def _describe(effects: Sequence[Effect]) -> str:
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
