"""What the pool should be: as large as the run needs, and of its shape; warm for a while after."""

from master.controller.actions import Scale
from master.controller.views import World
from master.pools.base import Shape


def wanted_pool(world: World) -> Scale:
    """Return how many workers there should be, what they should be like, and which must stay."""
    run = world.run
    if run is not None:
        busy = frozenset(rank.worker for rank in run.ranks if not rank.over)
        # The pool shrinks from the highest number down, and by no worker that has a rank.
        kept = max((_number(worker) + 1 for worker in busy), default=0)
        return Scale(max(world.usual_workers, run.num_workers, kept), run.shape, busy)
    if world.warm is not None and world.now - world.last_run_ended_at < world.idle_seconds:
        return Scale(max(world.usual_workers, world.warm.num_workers), world.warm.shape)
    return Scale(world.usual_workers, Shape())


def _number(worker: str) -> int:
    """Return a worker's place in its pool, with which its name ends."""
    number = worker.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
