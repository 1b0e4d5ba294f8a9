"""Failures of groups of runs, and the goodput that Young and Daly expect of them.

The expected goodput assumes that failures are independent and exponentially distributed. Sources:
J. W. Young (1974), "A first order approximation to the optimum checkpoint interval", Communications
of the ACM 17(9), 530-531; J. T. Daly (2006), "A higher order estimate of the optimum checkpoint
interval for restart dumps", Future Generation Computer Systems 22(3), 303-312. Its times are
seconds. Its costs are measured over the runs of a group. The measured time starts with the training
of the first attempt and ends when the training of the last one ends, as in the formula.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlbench.contract.buckets import BEGINNING
from mlbench.contract.comparisons import Failures, Group
from mlbench.contract.names import Bucket
from mlbench.contract.results import Result
from mlbench.evaluation.run_attributes import Facts
from mlbench.evaluation.statistics import known, mean_or_none, of_shares

# --- Expected goodput, by Young and Daly ---


@dataclass(frozen=True)
class Costs:
    """Costs of failures and checkpoints, in seconds."""

    checkpoint: float
    """Duration for which a checkpoint interrupts the training."""
    restart: float
    """Time from the start of new processes until they resume the training."""
    between: float
    """Mean time that processes run between two failures; infinite without failures."""
    down: float = 0.0
    """Time from a failure until new processes start, in which none can fail. Daly assumes 0."""


def goodput(interval: float, costs: Costs) -> float:
    """Return the expected goodput, with a checkpoint after each ``interval`` of training.

    That is the solve time divided by the total wall time of Daly's complete model: a failure may
    also hit a checkpoint or a restart. Each failure adds the time in which no process runs.
    """
    if math.isinf(costs.between):
        return interval / (interval + costs.checkpoint)
    try:
        again = math.exp(costs.restart / costs.between)
        cycle = costs.between + costs.down
        wall = cycle * again * math.expm1((interval + costs.checkpoint) / costs.between)
    except OverflowError:
        return 0.0
    return interval / wall


def youngs_interval(costs: Costs) -> float:
    """Return Young's interval between checkpoints, which assumes short checkpoints."""
    return math.sqrt(2 * costs.checkpoint * costs.between)


def best_interval(costs: Costs) -> float:
    """Return Daly's higher order interval between checkpoints, which also holds for long ones.

    It depends neither on the cost of a restart nor on the time without processes.
    """
    if costs.checkpoint >= 2 * costs.between:
        return costs.between
    half = math.sqrt(costs.checkpoint / (2 * costs.between))
    return youngs_interval(costs) * (1 + half / 3 + half**2 / 9) - costs.checkpoint


# --- Goodput of groups with failures ---

FAULTS = "faults"


@dataclass(frozen=True)
class _TimeUse:
    """Time of a run, as seconds of one worker."""

    useful: float
    """Time that the run would also have needed without failures and checkpoints."""
    wall: float
    failures: int
    down: float
    """Time without processes, over all failures."""
    again: float
    """Time that restarted processes needed until they trained, over all failures."""


def failures_of(
    groups: Sequence[Group], results: Sequence[Result], facts: Mapping[int, Facts]
) -> tuple[Failures, ...]:
    """Return the goodput of each group that had failures or planned some, in their order."""
    by_id = {result.run_id: result for result in results}
    failures = []
    for index, group in enumerate(groups):
        runs = [by_id[run_id] for run_id in group.run_ids]
        uses = [use for use in map(_time_use, runs) if use]
        count = sum(use.failures for use in uses)
        has_plan = any(facts[run.run_id].get(FAULTS, "none") != "none" for run in runs)
        if not uses or not (has_plan or count):
            continue
        injected = sum(run.injected_faults or 0 for run in runs)
        down = sum(use.down for use in uses) / max(1, count)
        again = sum(use.again for use in uses) / max(1, count)
        cost = mean_or_none([run.checkpoints.seconds for run in runs if run.checkpoints])
        intervals = [
            max(0.0, run.training_seconds / run.checkpoints.count - run.checkpoints.seconds)
            for run in runs
            if run.checkpoints is not None and run.training_seconds is not None
        ]
        interval = mean_or_none(known(intervals))
        between = sum(use.wall for use in uses) / count if count else math.inf
        costs = Costs(cost or 0.0, again, between - down, down)
        share = of_shares(use.useful / use.wall for use in uses)
        was_stopped = any(run.goodput and run.goodput.seconds.get("stopped") for run in runs)
        best = None
        if cost and count:  # A checkpoint can be kept once per step at most.
            best = max([best_interval(costs), *known(run.step_seconds for run in runs)])
        of_group = Failures(
            group=index,
            failures=count,
            injected=injected,
            between_seconds=between if count else None,
            restart_seconds=down + again if count else None,
            checkpoint_seconds=cost,
            interval_seconds=interval,
            kept=share,
            expected=goodput(interval, costs) if interval and not was_stopped else None,
            best_interval_seconds=best,
        )
        if has_plan and not count and not injected:
            text = f"{group.label}: none of the planned failures fell within its runs"
            of_group = replace(of_group, text=text)
        failures.append(of_group)
    return tuple(failures)


def _time_use(run: Result) -> _TimeUse | None:
    """Return the time of a run by its use; None if the run recorded too little."""
    if run.goodput is None or run.goodput.share is None:
        return None
    total, again, restarts = Counter[str](), 0.0, Counter[int]()
    for row in run.goodput.ranks:
        total.update(row.seconds)
        beginning = sum(row.seconds.get(bucket, 0.0) for bucket in BEGINNING)
        again += beginning if row.attempt > 1 else row.again_seconds
        restarts[row.attempt] = max(restarts[row.attempt], row.restarts)

    def seconds(*buckets: Bucket) -> float:
        return sum(total[bucket] for bucket in buckets)

    first = seconds(*BEGINNING) - again
    # Results sealed by earlier versions count the queue as worker-seconds.
    wall = total.total() - first - seconds("queued", "workers", "idle")
    if wall <= 0:
        return None
    useful = seconds(
        *("compute", "contention", "communication", "waiting", "data", "evaluation", "paused")
    )
    down = seconds("detection", "restart")
    ranks = len({row.rank for row in run.goodput.ranks})
    failures = max(restarts) - 1 + restarts.total()
    return _TimeUse(useful / ranks, wall / ranks, failures, down / ranks, again / ranks)
