"""Sweeps: their baselines, panels and charts, and the remaining time of a benchmark set."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from statistics import fmean
from typing import Protocol

from mlbench.contract import palette
from mlbench.contract.comparisons import Group, SignificanceTest
from mlbench.contract.extensions import load_all
from mlbench.contract.humanize import count, swept
from mlbench.contract.records import RunSet, Slot
from mlbench.contract.results import Result, Summary
from mlbench.contract.runspec import NETWORK_UNITS
from mlbench.contract.sweeps import (
    Axis,
    Cell,
    Chart,
    Frontier,
    Importance,
    LastValues,
    Panel,
    SetAnalysis,
    SetPoint,
    Sweep,
)
from mlbench.evaluation.statistics import mean_of_group

# --- Baselines and panels ---

WORKERS = "workers"


@dataclass(frozen=True)
class SweepPoint:
    """Number of workers of a group, and its swept values."""

    num_workers: int
    swept: Mapping[str, str]


def keys_of(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the options that all results sweep; empty if they sweep different ones."""
    keys = tuple(results[0].swept)
    return keys if all({*result.swept} == {*keys} for result in results) else ()


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
    return next(i for i, point in enumerate(points) if point.swept == points[index].swept)


def baseline(points: Sequence[SweepPoint], index: int) -> tuple[int, str]:
    """Return the index of a combination's baseline, and the difference such as ``exchange flat``.

    The baseline has the same number of workers, and the first value of the first key for which the
    combination has a later value. Without such a baseline, it is the combination with the fewest
    workers, which may be this one, and the difference is empty.
    """
    point = points[index]
    for key, (first, *_) in _ranks(points).items():
        candidate = SweepPoint(point.num_workers, {**point.swept, key: first})
        if point.swept[key] != first and candidate in points:
            return points.index(candidate), f"{key} {first}"
    return fewest_workers(points, index), ""


def _ranks(points: Sequence[SweepPoint]) -> dict[str, list[str]]:
    """Return the distinct values of each key, in the order in which they come first."""
    keys = points[0].swept
    return {key: list(dict.fromkeys(point.swept[key] for point in points)) for key in keys}


def lay_out(
    points: Sequence[SweepPoint | Group], evidence: Sequence[SignificanceTest] = ()
) -> Sweep | None:
    """Return the panels of sorted combinations; None if they do not differ in a key.

    The horizontal axis is a network limit, or else the first numeric key, so a line shows a figure
    over it. The second key has the rows, and each combination of the others has a panel.
    """
    positions = [coordinates(point) for point in points]
    varied = axes_of(positions)
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

    def index_of(cell: Mapping[str, str]) -> int | None:
        matches = (i for i, at in enumerate(positions) if cell.items() <= at.items())
        return next(matches, None)

    panels = tuple(
        Panel(
            ", ".join(
                count(int(value), "worker") if key == WORKERS else f"{key} {value}"
                for key, value in shared.items()
            ),
            tuple(
                tuple(index_of({**shared, **row, across: x}) for x in varied[across].values)
                for row in rows
            ),
        )
        for shared in fixed
    )
    text = ""
    if len(evidence) > 5:  # A reader skips more sentences than that.
        differing = sum(test.distinguishable for test in evidence)
        tests = " and ".join(sorted({test.test for test in evidence}))
        text = (
            f"{differing} of {len(evidence)} groups differ from their baseline "
            f"(p < 0.05, {tests}, corrected for multiple comparisons)"
        )
    return Sweep(varied[across], by, panels, text)


def is_wide_range(least: float, most: float) -> bool:
    """Check if a logarithmic scale shows values better: the largest is 8 times the least."""
    return 0 < least <= most / 8


def coordinates(point: SweepPoint | Group | Slot) -> dict[str, str]:
    """Return the swept values and the number of workers, as strings."""
    return {**point.swept, WORKERS: str(point.num_workers)}


def axes_of(positions: Sequence[Mapping[str, str]]) -> dict[str, Axis]:
    """Return the axes of the keys in which these coordinates differ, the workers' last."""
    swept_keys = dict.fromkeys(key for at in positions for key in at if key != WORKERS)
    axes: dict[str, Axis] = {}
    for key in (*swept_keys, WORKERS):
        values = list(dict.fromkeys(at.get(key, "") for at in positions))
        if len(values) < 2:
            continue
        unit = NETWORK_UNITS.get(key, "")
        try:
            numbers = {value: float(value.removesuffix(unit)) for value in values}
        except ValueError:
            numbers = {}
        if numbers and all(map(math.isfinite, numbers.values())):
            values.sort(key=lambda value: numbers[value])
            ascending = tuple(numbers[value] for value in values)
            is_wide = is_wide_range(ascending[0], ascending[-1])
            axes[key] = Axis(key, unit, tuple(values), ascending, is_wide=is_wide)
        else:
            axes[key] = Axis(key, "", tuple(values), None, is_wide=False)
    return axes


# --- Charts ---


@dataclass(frozen=True)
class Measure:
    """A figure by which the groups of a sweep are judged."""

    title: str
    name: str
    unit: str
    field: str
    """Field of ``Group`` that holds the figure."""
    is_less_better: bool


TIME = Measure(
    "Time to target", "time to target (training)", "s", "training_seconds_to_target", True
)
RATE = Measure("Throughput", "throughput", "samples/s", "samples_per_second", False)


def charts(sweep: Sweep, groups: Sequence[Group]) -> tuple[Chart, ...]:
    """Return the charts of a sweep's groups that have any figure."""
    keys = " and ".join([sweep.across.key, *([sweep.by.key] if sweep.by else [])])
    all_charts = []
    for measure, (number, panel) in product((TIME, RATE), enumerate(sweep.panels)):
        figures: dict[int | None, Summary] = {}
        for index in {index for row in panel.cells for index in row if index is not None}:
            figure: Summary | None = getattr(groups[index], measure.field)
            if figure and figure.mean is not None and math.isfinite(figure.mean):
                figures[index] = figure
        if not figures:
            continue
        means = {i: figure.mean or 0.0 for i, figure in figures.items()}
        least, most = min(means.values()), max(means.values())
        is_wide = is_wide_range(least, most)
        scale: Callable[[float], float] = math.log if is_wide else float
        worst, best = map(scale, (most, least) if measure.is_less_better else (least, most))
        cells: dict[int | None, Cell] = {}
        for i, shown in figures.items():
            height = (len(palette.HEAT) - 1) * (scale(means[i]) - worst)
            heat = round(height / (best - worst or math.inf))
            cells[i] = Cell(means[i], shown.mean_low, shown.mean_high, heat)
        chart = Chart(
            ", ".join(filter(None, [f"{measure.title} by {keys}", panel.label])),
            f"{measure.name} [{measure.unit}]",
            measure.unit,
            is_wide,
            tuple(tuple(cells.get(i) for i in row) for row in panel.cells),
            number,
        )
        all_charts.append(chart)
    return tuple(all_charts)


# --- Analysis ---


class SweepAnalysis(Protocol):
    """What a sweep tells about its options: the value of an entry point of ``mlbench.sweeps``."""

    def frontier(self, results: Sequence[Result]) -> Frontier | None:
        """Compare the algorithms of a sweep over bandwidths; None for other sweeps."""

    def importances(
        self, axes: Sequence[Axis], points: Sequence[SetPoint], *, by_time: bool
    ) -> tuple[tuple[Importance, ...], str]:
        """Return the correlations of the runs' figure with the options, and a sentence on them."""


@cache
def sweep_analysis() -> SweepAnalysis | None:
    """Return the analysis that is installed; None without one."""
    return next(iter(load_all("mlbench.sweeps").values()), None)


@dataclass(frozen=True)
class RunSummaryMetrics:
    """Figures of a run of a set; None where unknown."""

    seconds_to_target: float | None = None
    """Training time to the target; None also for a run that has not reached it."""
    samples_per_second: float | None = None
    wall_seconds: float | None = None
    """Duration of the run; for an active run, the time since its start."""
    last_values: Mapping[str, float] = field(default_factory=dict)
    """Last value of each metric of the code; empty for a run with a target."""


def analyze(run_set: RunSet, figures: Mapping[int, RunSummaryMetrics]) -> SetAnalysis:
    """Return the figures of a set's counted runs over its axes, and the remaining time."""
    counted = [
        (slot, trial.run_id) for slot in run_set.slots for trial in slot.trials if trial.counts
    ]
    runs = [figures.get(run_id, RunSummaryMetrics()) for _, run_id in counted]
    by_time = any(run.seconds_to_target is not None for run in runs)
    measure = TIME if by_time else RATE
    values = [run.seconds_to_target if by_time else run.samples_per_second for run in runs]
    axes = tuple(axes_of([coordinates(slot) for slot in run_set.slots]).values())
    points = []
    for (slot, run_id), value in zip(counted, values, strict=True):
        settings = coordinates(slot)
        position = tuple(settings.get(axis.key, "") for axis in axes)
        points.append(SetPoint(run_id, _name(slot), position, value))
    combinations = [_name(slot) for slot, _ in counted]
    last_values: dict[str, dict[str, list[float]]] = {}
    for name, run in zip(combinations, runs, strict=True):
        for metric, last in run.last_values.items():
            last_values.setdefault(name, {}).setdefault(metric, []).append(last)
    importances: tuple[Importance, ...] = ()
    text = ""
    if analysis := sweep_analysis():
        importances, text = analysis.importances(axes, points, by_time=by_time)
    return SetAnalysis(
        measure=measure.name,
        unit=measure.unit,
        is_less_better=measure.is_less_better,
        axes=axes,
        points=tuple(points),
        importances=importances,
        text=text,
        slots_left=sum(_is_left(slot, run_set) for slot in run_set.slots),
        seconds_left=_seconds_left(run_set, figures),
        last_values=tuple(
            LastValues(
                name,
                combinations.count(name),
                {metric: mean_of_group(numbers) for metric, numbers in sorted(by_metric.items())},
            )
            for name, by_metric in last_values.items()
        ),
    )


def _name(slot: Slot) -> str:
    workers = count(slot.num_workers, "worker")
    return ", ".join(filter(None, [swept(slot.swept), workers]))


def _is_left(slot: Slot, run_set: RunSet) -> bool:
    return slot.number in run_set.waiting or slot.active is not None


def _seconds_left(run_set: RunSet, figures: Mapping[int, RunSummaryMetrics]) -> float | None:
    """Estimate the remaining time from finished runs of the same kind, or else from all."""
    durations: defaultdict[str, list[float]] = defaultdict(list)
    for slot in run_set.slots:
        for trial in slot.trials:
            seconds = figures.get(trial.run_id, RunSummaryMetrics()).wall_seconds
            if trial.state == "FINISHED" and seconds is not None:
                durations[_name(slot)].append(seconds)
    remaining = [slot for slot in run_set.slots if _is_left(slot, run_set)]
    if not remaining:
        return 0.0
    if not durations:
        return None
    usual = fmean(seconds for alike in durations.values() for seconds in alike)
    total = 0.0
    for slot in remaining:
        active = figures.get(slot.active.run_id) if slot.active else None
        elapsed = active.wall_seconds or 0.0 if active else 0.0
        total += max(0.0, fmean(durations.get(_name(slot), [usual])) - elapsed)
    return total
