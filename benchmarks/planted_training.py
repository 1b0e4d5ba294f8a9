"""Training of ``planted_causes`` and ``predicted_changes`` that a known cause slows down.

``python planted_training.py NAME=VALUE ...``. ``Plan`` lists the settings.
"""

import os
import random
import sys
import time
from dataclasses import dataclass

import torch
from torch import distributed

from mlbench import Tracker
from mlbench.contract import names


@dataclass
class Plan:
    """Settings of a training. Times are in milliseconds per step, unless they say otherwise."""

    steps: int = 200
    work: float = 20.0
    data: float = 0.0
    varies: bool = False
    """Whether the time to load data varies as exponential times do, differently on each rank."""
    late: float = 0.0
    """Time by which rank 1 is late."""
    values: int = 1000
    """Values that ranks exchange in each step."""
    samples: int = 16
    evaluate: float = 0.0
    """Time of an evaluation, in milliseconds."""
    evaluate_every: int = 3
    save: float = 0.0
    """Time of a checkpoint, in milliseconds."""
    save_every: int = 4
    nan_from: int = 1 << 30
    """Step from which on the loss is not a number."""
    dies_at: int = 1 << 30
    """Step at which rank 1 of the first attempt ends."""
    spins: bool = False
    """Whether the work uses a core; otherwise it sleeps, so that other programs do not matter."""
    threads: int = 1


def main(plan: Plan) -> None:
    """Train, and record each step."""
    torch.set_num_threads(plan.threads)
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    chance = random.Random(rank)  # noqa: S311 - no secret
    gradient = torch.zeros(plan.values)
    matrix = torch.ones(700, 700)
    is_first = os.environ[names.ENV_ATTEMPT] == "1"
    with Tracker() as tracker:
        if plan.threads > 1:
            tracker.settings({"threads": plan.threads})
        sent_bytes = 2 * (size - 1) / size * gradient.nbytes  # by a ring
        tracker.log({names.BYTES_PER_STEP: sent_bytes})
        for step in range(plan.steps):
            with tracker.phase("data"):
                time.sleep(plan.data / 1000 * (chance.expovariate(1) if plan.varies else 1))
            with tracker.phase("forward"):
                if plan.threads > 1:
                    matrix @ matrix
                elif plan.spins:
                    until = time.thread_time() + plan.work / 1000
                    while time.thread_time() < until:
                        pass
                else:
                    time.sleep(plan.work / 1000)
                time.sleep(plan.late / 1000 if rank == 1 else 0)
            if is_first and rank == 1 and step == plan.dies_at:
                os._exit(3)
            with tracker.phase("communication"):
                distributed.all_reduce(gradient)
            loss = float("nan") if step >= plan.nan_from else 1 / (1 + step)
            tracker.step(samples=plan.samples, train_loss=loss)
            if plan.evaluate and step % plan.evaluate_every == plan.evaluate_every - 1:
                with tracker.phase("evaluation"):
                    time.sleep(plan.evaluate / 1000)
            if plan.save and step % plan.save_every == plan.save_every - 1:
                with tracker.phase("checkpoint"):
                    time.sleep(plan.save / 1000)
    distributed.destroy_process_group()


pairs = (word.split("=") for word in sys.argv[1:])
kinds = {name: type(value) for name, value in vars(Plan()).items()}
main(Plan(**{name: kinds[name](float(value)) for name, value in pairs}))
