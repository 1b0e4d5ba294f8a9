"""A training whose rank 0 exits with code 0 while rank 1 still exchanges values with it."""

import os
import sys

import torch
import torch.distributed as dist

import mlbench

STEPS = 15


def main() -> None:
    """Train until rank 0 exits."""
    dist.init_process_group("gloo")
    tracker = mlbench.Tracker()
    for step in range(STEPS + 10):
        if step == STEPS and dist.get_rank() == 0:
            sys.stdout.flush()
            os._exit(0)
        with tracker.phase("communication"):
            dist.all_reduce(torch.ones(1))
        tracker.step(samples=1)


if __name__ == "__main__":
    main()
