"""MLPerf's scores of official sets, and its reference convergence points (RCP).

Names in quotation marks are sections of MLPerf's training_rules. RCP is the section "Reference
Convergence Points". The numbers of the rules are in ``training_rules.toml``, the points in
``references/``.
"""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

from mlbench.contract.comparisons import Convergence, Score
from mlbench.contract.records import RunSet
from mlbench.contract.results import Result
from mlbench.evaluation.run_attributes import BATCH_SIZE
from mlbench.evaluation.statistics import t_quantile

_FOLDER = Path(__file__).parent
_RULES = tomllib.loads((_FOLDER / "training_rules.toml").read_text())
OFFICIAL_RUNS: int = _RULES["results"]["runs"]
"""Number of runs of an official result."""
_COUNTED = slice(_RULES["results"]["dropped_fastest"], -_RULES["results"]["dropped_slowest"])
_DROPPED: int = _RULES["results"]["dropped_fastest"] + _RULES["results"]["dropped_slowest"]
_SIGNIFICANCE: float = _RULES["convergence"]["significance"]


def mean_of_runs(figures: Sequence[float]) -> float:
    """Return the mean of runs without the fastest and the slowest; infinite if it is invalid.

    "Benchmark Results": a run that does not converge, whose time is infinite, may be dropped as the
    slowest; with more than one, the result is invalid.
    """
    return fmean(sorted(figures)[_COUNTED])


@dataclass(frozen=True)
class Window:
    """Consecutive runs by which a set is scored."""

    first: int
    """Position of the first run."""
    score: float
    """Mean of the runs; infinite if the window is invalid ("Scoring": not a result)."""


def choose(seconds: Sequence[float], size: int = OFFICIAL_RUNS) -> Window:
    """Return the ``size`` consecutive runs with the median score of all such windows.

    "Scoring": of more runs than required, those closest to the median count, and invalid windows
    count as infinite. For an even number of windows, whose median lies between two, it is the
    slower one, so that nobody gains by it; of equal ones the first. Runs are in the order in which
    they began; the time of a run that did not converge is infinite.
    """
    starts = range(len(seconds) - size + 1)
    windows = [Window(first, mean_of_runs(seconds[first : first + size])) for first in starts]
    windows.sort(key=lambda window: window.score)
    median = windows[len(windows) // 2]
    return next(window for window in windows if window.score == median.score)


@dataclass(frozen=True)
class ReferencePoint:
    """Epochs of the reference to the target with a batch size."""

    batch_size: int
    mean: float
    deviation: float
    runs: int
    """Number of runs in the test."""

    @classmethod
    def of(cls, batch_size: int, epochs: Sequence[float]) -> "ReferencePoint":
        """Sum up runs; the fastest and the slowest count for neither figure ("RCP Examples").

        MLPerf's own checker takes the deviation of all runs, which is less strict.
        """
        counted = sorted(epochs)[_COUNTED]
        return cls(batch_size, fmean(counted), pstdev(counted), len(counted))

    def least_epochs(self, runs: int) -> float:
        """Return the least mean over ``runs`` runs that is not significantly less than this.

        RCP: by a one-sided t-test of two samples of similar variance.
        """
        quantile = t_quantile(1 - _SIGNIFICANCE, self.runs + runs - 2)
        return self.mean - quantile * self.deviation * math.sqrt(1 / self.runs + 1 / runs)


def prune(points: Sequence[ReferencePoint]) -> list[ReferencePoint]:
    """Return the points that bound the convergence of the reference, by batch size.

    RCP: larger batches take more epochs. So a point does not count if a larger batch converged
    faster, or if it is slower than the line between any two around it.
    """
    ordered = sorted(points, key=lambda point: point.batch_size)
    fastest = min(ordered, key=lambda point: point.mean)
    bounds: list[ReferencePoint] = []
    for point in ordered[ordered.index(fastest) :]:
        while len(bounds) > 1:
            line = _between(bounds[-2], point, bounds[-1].batch_size)
            if line.mean >= bounds[-1].mean:
                break
            bounds.pop()
        bounds.append(point)
    return bounds


def find(points: Sequence[ReferencePoint], batch_size: int) -> ReferencePoint | None:
    """Return the point of a batch size, interpolated if needed; None beyond the largest.

    RCP: below the smallest it is the smallest, which is stricter.
    """
    bounds = prune(points)
    if batch_size <= bounds[0].batch_size:
        return bounds[0]
    for below, above in pairwise(bounds):
        if batch_size == above.batch_size:
            return above
        if batch_size < above.batch_size:
            return _between(below, above, batch_size)
    return None


def _between(below: ReferencePoint, above: ReferencePoint, batch_size: int) -> ReferencePoint:
    """Interpolate; the test assumes the reference's number of runs, including dropped ones.

    MLPerf's checker and the example of submitter S3 do the same.
    """
    share = (batch_size - below.batch_size) / (above.batch_size - below.batch_size)
    mean, deviation = (
        low + share * (high - low)
        for low, high in ((below.mean, above.mean), (below.deviation, above.deviation))
    )
    return ReferencePoint(batch_size, mean, deviation, min(below.runs, above.runs) + _DROPPED)


@dataclass(frozen=True)
class Reference:
    """Reference convergence points of a task and a target, for runs with a batch size."""

    batch_size: int
    points: tuple[ReferencePoint, ...]

    def judge(self, runs: Sequence[Result | None]) -> Convergence | None:
        """Compare the epochs of runs with the reference's; None if all runs are dropped.

        A run that did not reach the target, or is missing, took infinitely many.
        """
        if len(runs) <= _DROPPED:
            return None
        times = [run.valid_time_to_target if run else None for run in runs]
        epochs = mean_of_runs(
            [math.inf if time is None or time.epochs is None else time.epochs for time in times]
        )
        if not math.isfinite(epochs):
            return None
        point = find(self.points, self.batch_size)
        text = f"they took {epochs:.3g} epochs to the target with a batch of {self.batch_size}"
        if point is None:
            text += ", larger than any that the reference has"
            return Convergence(self.batch_size, epochs, None, None, False, 1.0, text)
        least = point.least_epochs(len(runs) - _DROPPED)
        too_fast = epochs < least
        text += f", the reference {point.mean:.3g}"
        if too_fast:
            test = f"t-test, p < {_SIGNIFICANCE:g}"
            text += f": fewer than it allows for so many runs ({least:.3g}; {test})"
        factor = max(1.0, point.mean / epochs)
        return Convergence(self.batch_size, epochs, point.mean, least, too_fast, factor, text)


def reference_of(run: Result, facts: Mapping[str, str]) -> Reference | None:
    """Return the reference for a run with these attributes; None without one."""
    batch_size = facts.get(BATCH_SIZE, "")
    file = _FOLDER / "references" / f"{run.benchmark}.json"
    if run.target is None or not batch_size.isdecimal() or not file.exists():
        return None
    points = tuple(
        ReferencePoint.of(point["batch_size"], point["epochs"])
        for point in json.loads(file.read_text())["points"]
        # The reference of a recipe does not apply to other settings.
        if point["target"] == run.target.value
        and point.get("settings", {}).items() <= facts.items()
    )
    return Reference(int(batch_size), points) if points else None


class TrainingRules:
    """MLPerf's rules of training: a ``Scoring`` of the core."""

    official_runs = OFFICIAL_RUNS

    def convergence(
        self, runs: Sequence[Result | None], facts: Mapping[str, str]
    ) -> Convergence | None:
        """Compare the epochs of runs with the reference's; None without a reference."""
        first = next(filter(None, runs), None)
        reference = first and reference_of(first, facts)
        return reference.judge(runs) if reference else None

    def score(
        self, runs: Sequence[Result], facts: Mapping[str, str], sets: Sequence[RunSet]
    ) -> Score | None:
        """Score runs by MLPerf's rules; None unless they belong to an official set."""
        ids = {run.run_id for run in runs}
        run_set = next((plan for plan in sets if plan.official and ids & {*plan.counted}), None)
        if run_set is None:
            return None
        slots = [slot for slot in run_set.slots if slot.num_workers == runs[0].num_workers]
        trials = [trial for slot in slots for trial in slot.trials if trial.counts]
        by_id = {run.run_id: run for run in runs}
        # A run that crashed early may have reported too little to be in the group.
        absent = [
            trial for trial in trials if trial.run_id not in by_id and trial.state == "FINISHED"
        ]
        if len(trials) < len(slots) or any(not trial.deleted for trial in absent):
            compared = len(trials) - sum(not trial.deleted for trial in absent)
            return _none(run_set, f"{compared} of its {len(slots)} runs are compared")
        trials.sort(key=lambda trial: trial.run_id)
        seconds = []
        for trial in trials:
            run = by_id.get(trial.run_id) if trial.state == "FINISHED" else None
            reached = run.valid_time_to_target if run else None
            seconds.append(reached.wall_seconds if reached else math.inf)
        window = choose(seconds)
        chosen = [trial.run_id for trial in trials[window.first : window.first + OFFICIAL_RUNS]]
        if math.isinf(window.score):
            missed = sum(map(math.isinf, seconds))
            return _none(
                run_set, f"invalid: {missed} of {len(seconds)} runs did not reach the target"
            )
        convergence = self.convergence([by_id.get(run_id) for run_id in chosen], facts)
        factor = convergence.factor if convergence else 1.0
        text = f"official score of set {run_set.name}: {window.score:.4g} s"
        if factor > 1:
            text += f", normalized {window.score * factor:.4g} s, as it converged faster"
        return Score(run_set.name, tuple(chosen), window.score, window.score * factor, text)


def _none(run_set: RunSet, reason: str) -> Score:
    text = f"no official score of set {run_set.name}: {reason}"
    return Score(run_set.name, (), None, None, text)


RULES = TrainingRules()
