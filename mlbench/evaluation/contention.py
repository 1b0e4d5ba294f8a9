"""What CPU contention cost groups of runs, and whether it may explain how they differ. Pure."""

from collections.abc import Sequence

from mlbench.contract.comparisons import Group
from mlbench.contract.results import Result
from mlbench.evaluation.statistics import mean

COST = 1.3
"""By how much a run takes longer for each part of its time that a rank waited for a core.

The slope over 61 pairs of equal runs on two cores, with and without contention.
"""
_LEAST_COST = 0.01


def share_of(runs: Sequence[Result]) -> float | None:
    """Return the mean share of time that the rank of each run waited for a core that waited most.

    Others, also MLBench's own processes, had the core. None if it was measured for none of the
    runs.
    """
    measured = [[rank.measured.contention_share for rank in run.disturbances] for run in runs]
    shares = [max(ranks) for ranks in measured if ranks]
    return mean(shares) if shares else None


def doubt_of(group: Group, base: Group) -> str:
    """Say that contention costs one of two groups more than they differ by; empty if it does not.

    A difference in cost of less than 1 % is none.
    """
    faster = group.evidence.times_as_fast if group.evidence else None
    before, cost = base.contention_cost, group.contention_cost
    if faster is None or before is None or cost is None:
        return ""
    differ = abs(faster - 1)
    if abs(cost - before) < max(_LEAST_COST, differ):
        return ""
    return (
        f"{base.label} and {group.label} differ by {differ:.1%}, "
        f"and CPU contention cost them about {before:.1%} and {cost:.1%}"
    )
