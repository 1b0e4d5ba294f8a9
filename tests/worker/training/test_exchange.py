"""However gradients are exchanged, every rank ends with the mean over all of them."""

import functools
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.worker.ranks import finish, start_ranks
from worker.training.distributed import World
from worker.training.exchange import Flat, average_buffers

# Each rank trains on images of its own for four steps, from weights of its own; it prints the
# weights at the end, as what one rank would have with the mean of all gradients.
_TRAIN = """
import json, os, sys, torch
from torch import nn
from worker.training.distributed import join_world
from worker.training.exchange import ExchangeOptions, make_exchange

with join_world() as world:
    torch.manual_seed(world.rank)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 64))
    model = model.to(memory_format=torch.channels_last)
    exchange = make_exchange(ExchangeOptions(sys.argv[1], sys.argv[2]), model, world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        generator = torch.Generator().manual_seed(10 * step + world.rank)
        images = torch.rand(2, 3, 4, 4, generator=generator)
        exchange.clear()
        exchange.model(images).square().mean().backward()
        exchange.average()
        optimizer.step()
    weights = [value for p in model.parameters() for value in p.flatten().tolist()]
    print(json.dumps(weights), flush=True)
    os._exit(0)  # as worker.training.options.run does
"""


@functools.cache
def weights_of_one_process() -> list[float]:
    """Return the weights that it finds with the mean gradient of both ranks' images."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        seeds = [torch.Generator().manual_seed(10 * step + rank) for rank in range(2)]
        images = torch.cat([torch.rand(2, 3, 4, 4, generator=seed) for seed in seeds])
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()
    return [value for parameter in model.parameters() for value in parameter.flatten().tolist()]


# Rank 1 comes late to each of three steps. Each rank prints how long it waited in the last.
_LATE = """
import os, sys, time, torch
from torch import nn
from worker.training.distributed import join_world
from worker.training.exchange import ExchangeOptions, make_exchange

with join_world() as world:
    model = nn.Linear(4, 4)
    exchange = make_exchange(ExchangeOptions(sys.argv[1]), model, world)
    for step in range(3):
        exchange.clear()
        loss = exchange.model(torch.rand(2, 4)).sum()
        time.sleep(world.rank / 3)
        loss.backward()
        waited = exchange.waited_seconds()
        exchange.average()
    print(waited, flush=True)
    os._exit(0)
"""


def test_in_the_backward_pass_only_ddp_waits_for_another_rank(tmp_path: Path) -> None:
    early, late = map(float, finish(start_ranks(tmp_path, 2, "-c", _LATE, "ddp")))
    assert late < 0.2 < early
    assert finish(start_ranks(tmp_path, 2, "-c", _LATE, "flat")) == ["0.0\n", "0.0\n"]


@pytest.mark.parametrize(
    ("exchange", "compression", "least", "most"),
    [
        ("ddp", "none", 0, 1e-6),
        ("flat", "none", 0, 1e-6),
        ("per-layer", "none", 0, 1e-6),
        ("ddp", "fp16", 1e-6, 1e-3),
        ("ddp", "bf16", 1e-6, 1e-2),
        ("ddp", "powersgd", 1e-6, 0.1),
    ],
)
def test_two_ranks_train_as_one_process_would_and_compression_loses_a_little(
    exchange: str, compression: str, least: float, most: float, tmp_path: Path
) -> None:
    ranks = start_ranks(tmp_path, 2, "-c", _TRAIN, exchange, compression)
    one, other = (json.loads(output) for output in finish(ranks))
    assert one == other, "all ranks have the same weights, to the last bit"
    off = (torch.tensor(one) - torch.tensor(weights_of_one_process())).abs().max().item()
    assert least <= off < most


class Tripling(World):
    """Two ranks, of which the other always has twice the gradients of this one."""

    def sum_(self, tensor: torch.Tensor) -> None:
        """Add the other's."""
        tensor.mul_(3)


def test_flat_gradients_lie_in_one_piece_as_their_parameters_do() -> None:
    model = nn.Conv2d(3, 4, 3)
    model.weight.data = model.weight.to(memory_format=torch.channels_last)
    Flat(model, World())
    weight, bias = model.parameters()
    assert weight.grad is not None
    assert bias.grad is not None
    assert weight.grad.is_contiguous(memory_format=torch.channels_last)
    assert bias.grad.data_ptr() == weight.grad.data_ptr() + 4 * weight.numel()


def test_running_statistics_become_their_mean() -> None:
    norm = nn.BatchNorm2d(2)
    norm.running_mean, norm.running_var = torch.tensor([2.0, 4.0]), torch.tensor([6.0, 8.0])
    average_buffers(norm, Tripling(0, 2))
    assert norm.running_mean.tolist() == [3.0, 6.0]
    assert norm.running_var.tolist() == [9.0, 12.0]
    assert norm.num_batches_tracked == 0
