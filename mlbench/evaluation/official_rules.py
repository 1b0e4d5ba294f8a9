"""Scoring the runs of a group: beside their task's reference, and by MLPerf's rules.

Names in quotation marks are sections of MLPerf's training_rules for v6.0, and RCP stands for one of
them, "Reference Convergence Points".
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from mlbench.contract.comparisons import Convergence, Score
from mlbench.contract.records import RunSet
from mlbench.contract.results import Result
from mlbench.evaluation.run_attributes import BATCH_SIZE
from mlbench.evaluation.statistics import t_quantile

OFFICIAL_RUNS = 10
"""Runs of a result ("Benchmark Results"): of all of MLPerf's benchmarks but the largest two."""
_FOLDER = Path(__file__).parent / "references"
# The mean of fewer leaves nothing.
_FEWEST_RUNS = 3
_LEVEL = 0.05


def mean_of_runs(figures: Sequence[float]) -> float:
    """Return the mean of runs without the fastest and the slowest; infinite if it is invalid.

    "Benchmark Results": a run that does not converge, whose time is infinite, may be dropped as the
    slowest; with more than one, the result is invalid.
    """
    return fmean(sorted(figures)[1:-1])


@dataclass(frozen=True)
class Window:
    """The consecutive runs that a set is scored by."""

    first: int
    """The position of the first of them."""
    score: float
    """Infinite if the window is invalid: then there is no result ("Scoring")."""


def choose(seconds: Sequence[float], size: int = OFFICIAL_RUNS) -> Window:
    """Return the ``size`` consecutive runs with the median score of all such windows.

    "Scoring": of more runs than asked for, those are taken that are closest to the median, and
    windows that are invalid count as infinite. Of an even number of windows, whose median lies
    between two, it is the slower one, so that nobody gains by it; of equal ones the first. Runs
    come in the order in which they began; that of one that did not converge is infinite.
    """
    starts = range(len(seconds) - size + 1)
    windows = [Window(first, mean_of_runs(seconds[first : first + size])) for first in starts]
    windows.sort(key=lambda window: window.score)
    median = windows[len(windows) // 2]
    return next(window for window in windows if window.score == median.score)


@dataclass(frozen=True)
class Point:
    """How many epochs the reference takes to the goal with a batch size."""

    batch_size: int
    mean: float
    deviation: float
    runs: int
    """That the test takes into account."""

    @classmethod
    def of(cls, batch_size: int, epochs: Sequence[float]) -> "Point":
        """Sum up runs; the fastest and the slowest count for neither figure ("RCP Examples").

        MLPerf's own checker takes the deviation of all runs, which is less strict.
        """
        counted = sorted(epochs)[1:-1]
        return cls(batch_size, fmean(counted), pstdev(counted), len(counted))

    def least_epochs(self, runs: int) -> float:
        """Return the least mean over so many runs that is not significantly less than this.

        RCP: by a one-sided t-test of two samples of similar variance, with p = 0.05.
        """
        quantile = t_quantile(1 - _LEVEL, self.runs + runs - 2)
        return self.mean - quantile * self.deviation * math.sqrt(1 / self.runs + 1 / runs)


def prune(points: Sequence[Point]) -> list[Point]:
    """Return the points that bound how fast the reference converges, by batch size.

    RCP: larger batches take more epochs. So a point counts for nothing if a larger batch converged
    faster, or if it is slower than the line between any two around it.
    """
    ordered = sorted(points, key=lambda point: point.batch_size)
    fastest = min(ordered, key=lambda point: point.mean)
    kept: list[Point] = []
    for point in ordered[ordered.index(fastest) :]:
        while len(kept) > 1 and _between(kept[-2], point, kept[-1].batch_size).mean < kept[-1].mean:
            kept.pop()
        kept.append(point)
    return kept


def find(points: Sequence[Point], batch_size: int) -> Point | None:
    """Return the point of a batch size, in between by interpolation; None beyond the largest.

    RCP: below the smallest it is the smallest, which is stricter.
    """
    kept = prune(points)
    if batch_size <= kept[0].batch_size:
        return kept[0]
    for below, above in pairwise(kept):
        if batch_size == above.batch_size:
            return above
        if batch_size < above.batch_size:
            return _between(below, above, batch_size)
    return None


def _between(below: Point, above: Point, batch_size: int) -> Point:
    """Interpolate; the test takes as many runs as the reference had, dropped ones too.

    So do MLPerf's checker and the example of submitter S3.
    """
    share = (batch_size - below.batch_size) / (above.batch_size - below.batch_size)
    mean, deviation = (
        low + share * (high - low)
        for low, high in ((below.mean, above.mean), (below.deviation, above.deviation))
    )
    return Point(batch_size, mean, deviation, min(below.runs, above.runs) + 2)


@dataclass(frozen=True)
class Reference:
    """The reference convergence points of a task and a goal, for runs with a batch size."""

    batch_size: int
    points: tuple[Point, ...]

    def judge(self, runs: Sequence[Result | None]) -> Convergence | None:
        """Compare the epochs that runs took with the reference's; None for too few.

        A run that did not reach the goal, or is not there, took infinitely many.
        """
        if len(runs) < _FEWEST_RUNS:
            return None
        epochs = mean_of_runs([_epochs(run) for run in runs])
        if not math.isfinite(epochs):
            return None
        point = find(self.points, self.batch_size)
        took = f"they took {epochs:.3g} epochs to the goal with a batch of {self.batch_size}"
        if point is None:
            text = f"{took}, larger than any that the reference has"
            return Convergence(self.batch_size, epochs, None, None, False, 1.0, text)
        least = point.least_epochs(len(runs) - 2)
        too_fast = epochs < least
        text = f"{took}, the reference {point.mean:.3g}"
        if too_fast:
            text += f": fewer than it allows for so many runs ({least:.3g}; t-test, p < 0.05)"
        factor = max(1.0, point.mean / epochs)
        return Convergence(self.batch_size, epochs, point.mean, least, too_fast, factor, text)


def reference_of(run: Result, facts: Mapping[str, str]) -> Reference | None:
    """Return the reference for a run with these settings; None where there is none for them."""
    batch_size = facts.get(BATCH_SIZE, "")
    if run.target is None or not batch_size.isdecimal():
        return None
    points = tuple(
        Point.of(point["batch_size"], point["epochs"])
        for point in _points(run.benchmark)
        # One of a recipe says nothing of the others.
        if point["goal"] == run.target.value and point.get("settings", {}).items() <= facts.items()
    )
    return Reference(int(batch_size), points) if points else None


@cache
def _points(task: str) -> Sequence[Mapping[str, Any]]:
    file = _FOLDER / f"{task}.json"
    found: list[Mapping[str, Any]] = []
    if task and file.exists():
        found = json.loads(file.read_text())["points"]
    return found


def _epochs(run: Result | None) -> float:
    reached = run.valid_time_to_accuracy if run else None
    return math.inf if reached is None or reached.epochs is None else reached.epochs


def score(
    runs: Sequence[Result], sets: Sequence[RunSet], reference: Reference | None
) -> Score | None:
    """Score runs by MLPerf's rules, if they are those of an official set."""
    ids = {run.run_id for run in runs}
    run_set = next((plan for plan in sets if plan.official and ids & {*plan.counted}), None)
    if run_set is None:
        return None
    places = [place for place in run_set.places if place.num_workers == runs[0].num_workers]
    trials = [trial for place in places for trial in place.trials if trial.counts]
    by_id = {run.run_id: run for run in runs}
    # What crashed early may have stated too little to be in the group.
    absent = [trial for trial in trials if trial.run_id not in by_id and trial.state == "FINISHED"]
    if len(trials) < len(places) or any(not trial.deleted for trial in absent):
        there = len(trials) - sum(not trial.deleted for trial in absent)
        return _none(run_set, f"{there} of its {len(places)} runs are compared")
    trials.sort(key=lambda trial: trial.run_id)
    seconds = [
        _seconds(by_id.get(trial.run_id) if trial.state == "FINISHED" else None) for trial in trials
    ]
    window = choose(seconds)
    chosen = [trial.run_id for trial in trials[window.first : window.first + OFFICIAL_RUNS]]
    if math.isinf(window.score):
        missed = sum(map(math.isinf, seconds))
        return _none(run_set, f"invalid: {missed} of {len(seconds)} runs did not reach the goal")
    judged = reference and reference.judge([by_id.get(run_id) for run_id in chosen])
    factor = judged.factor if judged else 1.0
    text = f"official score of set {run_set.name}: {window.score:.4g} s"
    if factor > 1:
        text += f", normalized {window.score * factor:.4g} s, as it converged faster"
    return Score(run_set.name, tuple(chosen), window.score, window.score * factor, text)


def _seconds(run: Result | None) -> float:
    reached = run.valid_time_to_accuracy if run else None
    return reached.wall_seconds if reached else math.inf


def _none(found: RunSet, why: str) -> Score:
    return Score(found.name, (), None, None, f"no official score of set {found.name}: {why}")
