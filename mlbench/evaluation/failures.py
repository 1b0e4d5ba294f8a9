"""What groups of runs kept of their time between failures, beside Young's and Daly's formula. Pure.

All costs are measured, over the runs of a group. The time that counts begins with the training of
the first attempt and ends with that of the last one, as in the formula.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mlbench.contract.buckets import BEGINNING
from mlbench.contract.comparisons import Failures, Group
from mlbench.contract.results import Result
from mlbench.evaluation.run_attributes import Facts
from mlbench.evaluation.statistics import known, mean_or_none, of_figures
from mlbench.evaluation.young_daly import Costs, best_interval, goodput

FAULTS = "faults"
# What a run would have needed without failures and checkpoints, too.
_USEFUL: Final = (
    *("compute", "contention", "communication", "waiting", "data", "evaluation", "paused"),
)
# No process runs that could fail.
_DOWN: Final = ("detection", "restart")
# Results sealed by earlier versions count the queue as worker-seconds.
_BEFORE_AND_AFTER: Final = ("queued", "workers", "idle")


@dataclass(frozen=True)
class _Kept:
    """What a run kept, in seconds of a worker."""

    useful: float
    wall: float
    failures: int
    down: float
    """Of all failures, as the next."""
    again: float
    """What processes that were begun anew needed until they trained."""


def failures_of(
    groups: Sequence[Group], results: Sequence[Result], facts: Mapping[int, Facts]
) -> tuple[Failures, ...]:
    """Return what each group kept that had failures or was ordered to have some, in their order."""
    by_id = {result.run_id: result for result in results}
    failures = []
    for place, group in enumerate(groups):
        runs = [by_id[run_id] for run_id in group.run_ids]
        kept = [run for run in map(_kept, runs) if run]
        ordered = any(facts[run.run_id].get(FAULTS, "none") != "none" for run in runs)
        if kept and (ordered or any(run.failures for run in kept)):
            of_group = _of_group(place, runs, kept)
            if ordered and not of_group.failures and not of_group.injected:
                text = f"{group.label}: none of the planned failures fell within its runs"
                of_group = replace(of_group, text=text)
            failures.append(of_group)
    return tuple(failures)


def _of_group(place: int, runs: Sequence[Result], kept: Sequence[_Kept]) -> Failures:
    failures, wall = sum(run.failures for run in kept), sum(run.wall for run in kept)
    down = sum(run.down for run in kept) / max(1, failures)
    again = sum(run.again for run in kept) / max(1, failures)
    cost = mean_or_none([run.checkpoints.seconds for run in runs if run.checkpoints])
    interval = mean_or_none(known(map(_interval, runs)))
    between = wall / failures if failures else math.inf
    costs = Costs(cost or 0.0, again, between - down, down)
    share = of_figures(run.useful / run.wall for run in kept)
    if share and share.mean_high is not None:  # by logarithms, which know no bound
        share = replace(share, mean_high=min(1.0, share.mean_high))
    was_stopped = any(run.goodput and run.goodput.seconds.get("stopped") for run in runs)
    return Failures(
        group=place,
        failures=failures,
        injected=sum(run.injected_faults or 0 for run in runs),
        between_seconds=between if failures else None,
        restart_seconds=down + again if failures else None,
        checkpoint_seconds=cost,
        interval_seconds=interval,
        kept=share,
        expected=goodput(interval, costs) if interval and not was_stopped else None,
        best_interval_seconds=_best(costs, runs) if cost and failures else None,
    )


def _best(costs: Costs, runs: Sequence[Result]) -> float:
    """Return the best interval between checkpoints, which is a step or longer."""
    steps = known(run.step_seconds for run in runs)
    return max([best_interval(costs), *steps])


def _interval(run: Result) -> float | None:
    """Return the mean time that a run trained between two checkpoints; None if none is known."""
    if run.checkpoints is None or run.training_seconds is None:
        return None
    return max(0.0, run.training_seconds / run.checkpoints.count - run.checkpoints.seconds)


def _kept(run: Result) -> _Kept | None:
    """Return what a run kept; None for one of which too little is known."""
    if run.goodput is None or run.goodput.share is None:
        return None
    total, again, restarts = Counter[str](), 0.0, Counter[int]()
    for row in run.goodput.ranks:
        total.update(row.seconds)
        beginning = sum(row.seconds.get(bucket, 0.0) for bucket in BEGINNING)
        again += beginning if row.attempt > 1 else row.again_seconds
        restarts[row.attempt] = max(restarts[row.attempt], row.restarts)
    first = sum(total[bucket] for bucket in BEGINNING) - again
    wall = total.total() - first - sum(total[bucket] for bucket in _BEFORE_AND_AFTER)
    if wall <= 0:
        return None
    ranks = len({row.rank for row in run.goodput.ranks})
    useful, down = (sum(total[bucket] for bucket in of) for of in (_USEFUL, _DOWN))
    failures = max(restarts) - 1 + restarts.total()
    return _Kept(useful / ranks, wall / ranks, failures, down / ranks, again / ranks)
