"""What groups of runs kept of their time between failures, beside Young's and Daly's formula. Pure.

All costs are measured, over the runs of a group. The time that counts begins with the training of
the first attempt and ends with that of the last one, as in the formula.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mlbench.evaluation.differences import Facts
from mlbench.evaluation.statistics import known, mean_or_none, of_figures
from mlbench.evaluation.young_daly import Costs, best_interval, goodput
from mlbench.results import Failures, Group, Result

FAULTS, CHECKPOINT_STEPS = "faults", "checkpoint_steps"
# What a run would have needed without failures and checkpoints, too.
_USEFUL: Final = ("compute", "communication", "waiting", "data", "evaluation", "paused")
# What begins a process: of the first attempt no failure's cost.
_BEGINNING: Final = ("start", "initialization", "compile", "restore")
_AFTER_FAILURE: Final = ("detection", "restart")
_BEFORE_AND_AFTER: Final = ("queued", "workers", "idle")


@dataclass(frozen=True)
class _Kept:
    """What a run kept, in seconds of a worker."""

    useful: float
    wall: float
    failures: int
    restarting: float
    """Of all failures."""


def failures_of(
    groups: Sequence[Group], results: Sequence[Result], facts: Mapping[int, Facts]
) -> tuple[Failures, ...]:
    """Return what each group kept, in their order; of those alone that were ordered to fail."""
    by_id = {result.run_id: result for result in results}
    found = []
    for place, group in enumerate(groups):
        runs = [by_id[run_id] for run_id in group.run_ids]
        kept = [one for one in map(_kept, runs) if one]
        if kept and any(facts[one.run_id].get(FAULTS, "none") != "none" for one in runs):
            found.append(_of_group(place, runs, kept, facts[runs[0].run_id]))
    return tuple(found)


def _of_group(place: int, runs: Sequence[Result], kept: Sequence[_Kept], facts: Facts) -> Failures:
    failures = sum(one.failures for one in kept)
    restarting = sum(one.restarting for one in kept)
    between = sum(one.wall for one in kept) / failures if failures else math.inf
    restart = restarting / failures if failures else 0.0
    steps = facts.get(CHECKPOINT_STEPS, "")
    every = int(steps) if steps.isdecimal() else 0
    cost = mean_or_none(known(every * _step(one) * _saving(one) for one in runs if every))
    interval = mean_or_none(known(every * _step(one) * (1 - _saving(one)) for one in runs if every))
    costs = Costs(cost or 0.0, restart, between)
    return Failures(
        group=place,
        failures=failures,
        between_seconds=between if failures else None,
        restart_seconds=restart if failures else None,
        checkpoint_seconds=cost,
        interval_seconds=interval,
        kept=of_figures(one.useful / one.wall for one in kept),
        expected=goodput(interval, costs) if interval else None,
        best_interval_seconds=best_interval(costs) if cost and failures else None,
    )


def _step(run: Result) -> float:
    return math.nan if run.step_seconds is None else run.step_seconds


def _saving(run: Result) -> float:
    """Return the share of training time in which checkpoints were saved."""
    return run.phases.get("checkpoint", 0.0) / (run.training_seconds or math.nan)


def _kept(run: Result) -> _Kept | None:
    """Return what a run kept; None for one of which too little is known."""
    if run.goodput is None or run.goodput.share is None:
        return None
    rows = run.goodput.ranks
    ranks = len({row.rank for row in rows})
    total, again = Counter[str](), Counter[str]()
    for row in rows:
        total.update(row.seconds)
        again.update(row.seconds if row.attempt > 1 else {})
    first = sum(total[one] - again[one] for one in _BEGINNING)
    wall = total.total() - first - sum(total[one] for one in _BEFORE_AND_AFTER)
    restarting = sum(total[one] for one in _AFTER_FAILURE) + sum(again[one] for one in _BEGINNING)
    useful = sum(total[one] for one in _USEFUL)
    failures = max(row.attempt for row in rows) - 1
    return _Kept(useful / ranks, wall / ranks, failures, restarting / ranks) if wall > 0 else None
