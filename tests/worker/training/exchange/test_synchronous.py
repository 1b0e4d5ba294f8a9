"""Waiting time of DDP, memory layout of flat gradients, and the mean of running statistics."""

from pathlib import Path

import torch
from torch import nn

from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.exchange.exchange_base import average_buffers
from mlbench_worker.training.exchange.synchronous import Flat
from tests.support.known import known
from tests.support.ranks import finish, start_ranks

# Rank 1 is late in each of three steps, and each rank prints its waiting time in the last one. DDP
# rebuilds its buckets after the first step.
_LATE = """
import os, time, torch
from torch import nn
from mlbench_worker.ranks.distributed import join_world
from mlbench.benchmarks.task_options import ExchangeOptions
from mlbench_worker.training.exchange import make_exchange

with join_world() as world:
    model = nn.Linear(4, 4)
    exchange = make_exchange(ExchangeOptions("ddp"), model, world)
    for step in range(3):
        exchange.clear()
        loss = exchange.model(torch.rand(2, 4)).sum()
        time.sleep(0.8 * world.rank)
        loss.backward()
    print(exchange.waited_seconds(), flush=True)
    os._exit(0)
"""


def test_ddp_waits_for_another_rank_in_the_backward_pass(tmp_path: Path) -> None:
    early, late = map(float, finish(start_ranks(tmp_path, 2, "-c", _LATE)))
    assert late < 0.4 < early


class Tripling(World):
    """A world of two ranks, where the other rank's gradients are always twice as large."""

    def sum_(self, tensor: torch.Tensor) -> None:
        """Add the other rank's gradients."""
        tensor.mul_(3)


def test_flat_gradients_are_contiguous_and_have_the_layout_of_parameters() -> None:
    model = nn.Conv2d(3, 4, 3)
    model.weight.data = model.weight.to(memory_format=torch.channels_last)
    Flat(model, World())
    weight, bias = model.parameters()
    assert weight.grad is not None
    assert weight.grad.is_contiguous(memory_format=torch.channels_last)
    assert known(bias.grad).data_ptr() == weight.grad.data_ptr() + 4 * weight.numel()


def test_running_statistics_are_averaged() -> None:
    norm = nn.BatchNorm2d(2)
    norm.running_mean, norm.running_var = torch.tensor([2.0, 4.0]), torch.tensor([6.0, 8.0])
    average_buffers(norm, Tripling(0, 2))
    assert norm.running_mean.tolist() == [3.0, 6.0]
    assert norm.running_var.tolist() == [9.0, 12.0]
    assert norm.num_batches_tracked == 0
