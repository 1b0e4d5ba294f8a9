"""Room for a run beside those that go on: cores of one machine, or worker pods of one shape.

Runs begin in the order in which they were ordered: none overtakes another, so a large one waits no
longer than those before it take. Pure functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlbench_master.controller.world import RunView, World

Shares = tuple[tuple[int, ...], ...]
"""By rank: the cores of its worker; empty where the pod itself is limited."""


@dataclass(frozen=True)
class Room:
    """What a run gets; nothing as long as others are in its way."""

    shares: Shares | None
    lacks: str = ""
    """What it waits for."""


def find_room(run: RunView, world: World) -> Room:
    """Find the cores that a run can begin with, or say which runs it waits for."""
    others = [other for other in world.runs if other.ranks]
    if world.cores is None:
        differing = [other for other in others if other.shape != run.shape]
        if differing:
            return Room(None, f"{_names(differing)}: its workers are not like this run's")
        return Room(((),) * run.num_workers)
    each = _cores_of_worker(run, len(world.cores), world.policy.concurrent_runs)
    wanted = min(each * run.num_workers, len(world.cores))
    free = [core for core in world.cores if not any(core in other.cores for other in others)]
    if len(free) < wanted:
        count = f"{wanted} of {len(world.cores)} cores, of which {len(free)} are free"
        return Room(None, f"{_names(others)}: this run needs {count}")
    return Room(share_cores(free[:wanted], run.num_workers, each))


def _cores_of_worker(run: RunView, cores: int, concurrent_runs: int) -> int:
    """Return how many cores each worker of a run has, whatever else goes on.

    By default an equal share of what falls to each of the runs that may go on at a time.
    """
    # For this pool, the API takes whole cores only.
    whole = int(run.shape.num_cpus or 0) or max(1, cores // concurrent_runs // run.num_workers)
    return min(whole, cores)


def share_cores(cores: Sequence[int], workers: int, each: int) -> Shares:
    """Return each worker's cores; no two share one as long as there are enough."""
    return tuple(
        tuple(sorted(cores[(worker * each + i) % len(cores)] for i in range(each)))
        for worker in range(workers)
    )


def _names(runs: Sequence[RunView]) -> str:
    ids = ", ".join(str(run.id) for run in runs)
    return f"it waits for run {ids}" if len(runs) == 1 else f"it waits for one of runs {ids}"
