"""Algorithms by which ranks keep their models together: one class for each.

``base`` defines the order of calls, and counts the bytes sent.
"""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from mlbench.benchmarks.task_options import ExchangeOptions
from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.exchange.compressed import QSGD, Compressed, PowerSGD, RandomK
from mlbench_worker.training.exchange.compressors import Compressor, SignCompressor, TopKCompressor
from mlbench_worker.training.exchange.exchange_base import Exchange
from mlbench_worker.training.exchange.local_sgd import Choco, Decentralized, LocalSGD
from mlbench_worker.training.exchange.synchronous import Buckets, Flat, PerLayer


def make_exchange(options: ExchangeOptions, model: nn.Module, world: World) -> Exchange:
    """Give all ranks the model of rank 0, and return the exchange that keeps it together."""
    if world.size == 1:
        return Exchange(model, world)
    for parameter in model.parameters():
        world.broadcast_(parameter.detach())
    with world.noticing_lost_peers():
        return _ALGORITHMS[options.exchange](options, model, world)


def _compressor(kind: str, options: ExchangeOptions, model: nn.Module) -> Compressor:
    sizes = [parameter.numel() for parameter in model.parameters()]
    if kind == "topk":
        return TopKCompressor(sum(sizes), options.density)
    return SignCompressor(sizes, next(model.parameters()).device)


def _common_seed(world: World) -> int:
    """Return PyTorch's initial seed on rank 0."""
    seed = torch.tensor(torch.initial_seed() % 2**63, device=world.device)
    world.broadcast_(seed)
    return int(seed.item())


_ALGORITHMS: Mapping[str, Callable[[ExchangeOptions, nn.Module, World], Exchange]] = {
    "ddp": lambda o, model, world: Buckets(model, world, o.compression),
    "flat": lambda _, model, world: Flat(model, world),
    "per-layer": lambda _, model, world: PerLayer(model, world),
    "local-sgd": lambda o, model, world: LocalSGD(model, world, o.local_steps),
    "post-local-sgd": lambda o, model, world: LocalSGD(model, world, o.local_steps, o.switch_epoch),
    "decentralized": lambda o, model, world: Decentralized(model, world, o.topology),
    "choco": lambda o, model, world: Choco(
        model, world, o.topology, _compressor(o.gossip_compression, o, model), o.gossip_step
    ),
    "signsgd": lambda o, model, world: Compressed(model, world, _compressor("sign", o, model)),
    "topk": lambda o, model, world: Compressed(model, world, _compressor("topk", o, model)),
    "randomk": lambda o, model, world: RandomK(model, world, o.density, _common_seed(world)),
    "qsgd": lambda o, model, world: QSGD(model, world, o.bits, _common_seed(world)),
    "powersgd": lambda o, model, world: PowerSGD(model, world, o.matrix_rank, _common_seed(world)),
}
