"""Capacity for a run next to the active ones: cores of one machine, or worker pods of one shape.

Runs start in the order in which they were submitted, so that small runs never delay a large one.
Pure functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlbench_master.controller.observed_state import ObservedState, RunView

Shares = tuple[tuple[int, ...], ...]
"""Cores of each worker, by rank; empty if the pod itself is limited."""


@dataclass(frozen=True)
class Capacity:
    """Cores that a run gets."""

    shares: Shares | None
    """Cores of its workers; None while other runs use what it needs."""
    missing: str = ""
    """Reason for waiting; empty if it can start."""


def find_capacity(run: RunView, observed: ObservedState) -> Capacity:
    """Find the cores for a run, or the active runs that it has to wait for."""
    active = [other for other in observed.runs if other.ranks]
    if observed.cores is None:
        differing = [other for other in active if other.shape != run.shape]
        if differing:
            return Capacity(None, f"{_waits_for(differing)}: its workers have another shape")
        return Capacity(((),) * run.num_workers)
    # The default is an equal share for each of the concurrent runs. A setting is a whole number
    # here, because the API accepts fractions only on Kubernetes.
    share = len(observed.cores) // observed.policy.concurrent_runs // run.num_workers
    each = min(int(run.shape.num_cpus or 0) or max(1, share), len(observed.cores))
    required = min(each * run.num_workers, len(observed.cores))
    used = {core for other in active for core in other.cores}
    free = [core for core in observed.cores if core not in used]
    if len(free) < required:
        need = f"this run needs {required} cores"
        free_cores = f"only {len(free)} of {len(observed.cores)} are free"
        return Capacity(None, f"{_waits_for(active)}: {need}, but {free_cores}")
    return Capacity(share_cores(free[:required], run.num_workers, each))


def share_cores(cores: Sequence[int], workers: int, each: int) -> Shares:
    """Return ``each`` cores per worker; workers share cores only if there are too few."""
    return tuple(
        tuple(sorted(cores[(worker * each + i) % len(cores)] for i in range(each)))
        for worker in range(workers)
    )


def _waits_for(runs: Sequence[RunView]) -> str:
    ids = ", ".join(str(run.id) for run in runs)
    return f"waiting for run {ids}" if len(runs) == 1 else f"waiting for one of runs {ids}"
