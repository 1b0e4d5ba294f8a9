"""What the pool should be: as large as the run needs, and of its shape; warm for a while after."""

from master.controller.actions import Scale
from master.controller.views import World
from master.pools.base import Shape


def wanted_pool(world: World) -> Scale:
    """Return how many workers there should be, what they should be like, and which must stay."""
    run = world.run
    if run is not None:
        # Until the run ends: its checkpoints lie with its workers. A lost one has nothing to lose.
        held = [rank for rank in run.ranks if not rank.lost]
        # The pool shrinks from the highest number down, and by no worker of the run.
        kept = max((_number(rank.worker) + 1 for rank in held), default=0)
        busy = frozenset(rank.pod_uid for rank in held)
        return Scale(max(world.usual_workers, run.num_workers, kept), run.shape, busy)
    if world.warm is not None and world.idle < world.idle_seconds:
        return Scale(max(world.usual_workers, world.warm.num_workers), world.warm.shape)
    return Scale(world.usual_workers, Shape())


def _number(worker: str) -> int:
    """Return a worker's place in its pool, with which its name ends."""
    number = worker.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
