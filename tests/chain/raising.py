"""A training in step of which rank 1 raises after a while, so that rank 0 is stopped in the middle.

Run as a rank of a run. A step takes 40 ms on both ranks.
"""

import time

import torch

from mlbench import Tracker
from mlbench_worker.ranks.distributed import join_world

STEP_SECONDS = 0.04
SAMPLES = 32
_STEPS = 60


def main() -> None:
    """Take steps on both ranks until rank 1 has done 60."""
    gradient = torch.zeros(1000)
    with join_world() as world:
        tracker = Tracker()
        while world.rank == 0 or tracker.steps < _STEPS:
            with tracker.phase("forward"):
                time.sleep(STEP_SECONDS)
            with tracker.phase("communication"):
                world.sum_(gradient)
            tracker.step(samples=SAMPLES, train_loss=1.0)
        raise ValueError("the data are over")


if __name__ == "__main__":
    main()
