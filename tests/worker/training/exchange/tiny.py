"""A tiny training, in which each algorithm takes six steps in one group of processes.

``python -m tests.worker.training.exchange.tiny`` is one rank. For each algorithm, it prints the
rank's weights and sent bytes in each step, and whether a checkpoint after three steps changes any
of them.
"""

import json
import os
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

import torch
from torch import nn

from mlbench.benchmarks.task_options import ExchangeOptions
from mlbench_worker.ranks.distributed import World, join_world
from mlbench_worker.training.exchange import make_exchange
from mlbench_worker.training.exchange.exchange_base import Exchange

SEED = 3
STEPS = 6
EPOCH_STEPS = 2
RATE = 0.1

ALGORITHMS = {
    "ddp": ExchangeOptions("ddp"),
    "ddp, fp16": ExchangeOptions("ddp", "fp16"),
    "ddp, bf16": ExchangeOptions("ddp", "bf16"),
    "flat": ExchangeOptions("flat"),
    "per-layer": ExchangeOptions("per-layer"),
    "local-sgd": ExchangeOptions("local-sgd", local_steps=2),
    "post-local-sgd": ExchangeOptions("post-local-sgd", local_steps=3, switch_epoch=1),
    "ring": ExchangeOptions("decentralized"),
    "complete": ExchangeOptions("decentralized", topology="complete"),
    "choco, sign": ExchangeOptions("choco"),
    "choco, topk": ExchangeOptions(
        "choco", topology="complete", gossip_compression="topk", density=0.1, gossip_step=0.3
    ),
    "signsgd": ExchangeOptions("signsgd"),
    "topk": ExchangeOptions("topk", density=0.1),
    "randomk": ExchangeOptions("randomk", density=0.1),
    "qsgd": ExchangeOptions("qsgd"),
    "powersgd": ExchangeOptions("powersgd", matrix_rank=1),
}


@dataclass(frozen=True)
class Trained:
    """A rank's training with one algorithm."""

    weights: list[list[float]]
    """Weights after each step."""
    mean: list[float]
    """Weights for an evaluation at the end."""
    bytes_sent: list[int]
    """Bytes sent in each step."""
    resumed_alike: bool
    """Whether a training that resumed from a checkpoint had identical weights."""
    after_loss: list[float]
    """Weights after the rank had to load another rank's checkpoint."""


def make_model(seed: int = SEED) -> nn.Module:
    """Return a model with 108 + 4 + 128 + 8 weights."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 8))
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def in_memory(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the values of tensors in memory order."""
    return torch.cat([t.detach().as_strided((t.numel(),), (1,)).clone() for t in tensors])


def weights_of(model: nn.Module) -> torch.Tensor:
    return in_memory(list(model.parameters()))


def loss_of(model: nn.Module, step: int, rank: int) -> torch.Tensor:
    """Return the loss over a rank's two images in a step."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    loss: torch.Tensor = model(torch.rand(2, 3, 4, 4, generator=generator)).square().mean()
    return loss


def train(
    model: nn.Module, exchange: Exchange, steps: range, rank: int
) -> tuple[list[torch.Tensor], list[int]]:
    """Return the weights and sent bytes of each step.

    The mean is also computed in each step, which must not affect the training.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    weights, sent = [], []
    for step in steps:
        exchange.begin_epoch(step // EPOCH_STEPS)
        exchange.clear()
        loss_of(exchange.model, step, rank).backward()  # type: ignore[no-untyped-call]
        exchange.after_backward()
        optimizer.step()
        exchange.after_step()
        weights.append(weights_of(model))
        sent.append(exchange.bytes_of_step())
        exchange.averaged(model)
    return weights, sent


def run(options: ExchangeOptions, world: World) -> Trained:
    """Train undisturbed, from the rank's checkpoint, and from another rank's checkpoint."""
    model = make_model(SEED + world.rank)  # only rank 0's model counts
    exchange = make_exchange(options, model, world)
    half = STEPS // 2
    first, sent = train(model, exchange, range(half), world.rank)
    checkpoint = [saved(model), saved(exchange)]
    second, more = train(model, exchange, range(half, STEPS), world.rank)
    mean = weights_of(exchange.averaged(model))

    model = make_model(SEED + world.rank)
    exchange = make_exchange(options, model, world)
    restore(model, exchange, checkpoint)
    again, _ = train(model, exchange, range(half, STEPS), world.rank)

    model = make_model(SEED + world.rank)
    exchange = make_exchange(options, model, world)
    checkpoint[1]["rank"] = 0
    restore(model, exchange, checkpoint)
    return Trained(
        [weights.tolist() for weights in first + second],
        mean.tolist(),
        sent + more,
        all(map(torch.equal, again, second)),
        weights_of(model).tolist(),
    )


def saved(part: nn.Module | Exchange) -> dict[str, Any]:
    """Return a state after a round trip through torch.save."""
    content = BytesIO()
    torch.save(part.state_dict(), content)
    content.seek(0)
    state: dict[str, Any] = torch.load(content, weights_only=True)
    return state


def restore(model: nn.Module, exchange: Exchange, states: list[dict[str, Any]]) -> None:
    """Load both states in the order of a checkpoint."""
    model.load_state_dict(states[0])
    exchange.load_state_dict(states[1])


def main() -> None:
    """Run as one rank."""
    with join_world() as world:
        found = {name: asdict(run(options, world)) for name, options in ALGORITHMS.items()}
        print(json.dumps(found), flush=True)
        os._exit(0)  # like mlbench_worker.ranks.rank_process.run


if __name__ == "__main__":
    main()
