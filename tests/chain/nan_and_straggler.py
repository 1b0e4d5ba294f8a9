"""A synchronous training: rank 1 is three times slower, and the loss of rank 0 becomes NaN.

Each rank runs until it is stopped.
"""

import math
import time

import torch

from mlbench import Tracker
from mlbench_worker.ranks.distributed import join_world

_SECONDS = 0.02
_SLOWED_SECONDS = 3 * _SECONDS
_FINITE_STEPS = 50


def main() -> None:
    """Take steps of equal duration on both ranks. Rank 0 spends most of each step waiting."""
    gradient = torch.zeros(1000)
    with join_world() as world, Tracker() as tracker:
        tracker.epoch(0)
        while True:
            with tracker.phase("forward"):
                time.sleep(_SLOWED_SECONDS if world.rank == 1 else _SECONDS)
            with tracker.phase("communication"):
                world.sum_(gradient)
            diverged = world.rank == 0 and tracker.steps >= _FINITE_STEPS
            tracker.step(samples=1, train_loss=math.nan if diverged else 1.0)


if __name__ == "__main__":
    main()
