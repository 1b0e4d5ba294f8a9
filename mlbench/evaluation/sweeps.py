"""The groups of a sweep: the baseline of each, and the panels in which they are drawn. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mlbench.contract.comparisons import Evidence, Group
from mlbench.contract.records import SetPlace
from mlbench.contract.results import Result
from mlbench.contract.runspec import NETWORK_UNITS
from mlbench.contract.sweeps import Axis, Panel, Sweep
from mlbench.contract.words import count

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
