"""A synchronous training whose rank 1 raises an error in a step that rank 0 completes.

Each rank of a run executes this file. A step takes 40 ms on both ranks.
"""

import time

import torch

from mlbench import Tracker
from mlbench_worker.ranks.distributed import join_world

STEP_SECONDS = 0.04
SAMPLES = 32
STEPS = 60


def main() -> None:
    """Take steps on both ranks until rank 1 raises an error in step 61."""
    gradient = torch.zeros(1000)
    with join_world() as world:
        tracker = Tracker()
        while True:
            with tracker.phase("forward"):
                time.sleep(STEP_SECONDS)
            with tracker.phase("communication"):
                world.sum_(gradient)
            if world.rank == 1 and tracker.steps == STEPS:
                raise ValueError("the data set is exhausted")
            tracker.step(samples=SAMPLES, train_loss=1.0)


if __name__ == "__main__":
    main()
