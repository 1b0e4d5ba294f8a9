"""Images a second of ResNet-20 on two workers of one thread each, by gradient exchange."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.measure import Figure, Ratio, alternate, timed
from benchmarks.resnet_rate import BATCH, STEPS, random_images
from benchmarks.servers import free_port
from mlbench import Tracker
from mlbench.options import ExchangeOptions, ImageModelOptions
from mlbench_worker.ranks.distributed import World, join_world, set_up
from mlbench_worker.tasks.cifar10 import CifarResNet
from mlbench_worker.training.images import ImageTrainer
from mlbench_worker.training.session import Session

_RANKS = 2
_ROUNDS = 7
_EXCHANGES = {
    "ddp": ExchangeOptions("ddp"),
    "flat": ExchangeOptions("flat"),
    "per-layer": ExchangeOptions("per-layer"),
    "ddp, fp16": ExchangeOptions("ddp", "fp16"),
    "ddp, bf16": ExchangeOptions("ddp", "bf16"),
    "local-sgd": ExchangeOptions("local-sgd"),
    "decentralized": ExchangeOptions("decentralized"),
    "choco": ExchangeOptions("choco"),
    "choco, topk": ExchangeOptions("choco", gossip_compression="topk"),
    "signsgd": ExchangeOptions("signsgd"),
    "topk": ExchangeOptions("topk"),
    "randomk": ExchangeOptions("randomk"),
    "qsgd": ExchangeOptions("qsgd"),
    "powersgd": ExchangeOptions("powersgd"),
}


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of both workers together for every exchange, taken in turn."""
    environ = {
        **os.environ,
        "WORLD_SIZE": str(_RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.exchange_rate"],
            env=environ | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(_RANKS)
    ]
    output, _ = [rank.communicate()[0] for rank in ranks]
    figures = {
        exchange: Figure(f"ResNet-20 on two gloo workers, {exchange}", "images/s", values)
        for exchange, values in json.loads(output).items()
    }
    return [
        *figures.values(),
        *(
            Ratio(f"{exchange}, beside ddp", figures[exchange].median / figures["ddp"].median)
            for exchange in ("flat", "per-layer")
        ),
    ]


def main() -> None:
    """Be one rank; rank 0 prints the rates of all exchanges."""
    with join_world() as world:
        loops = {name: _loop(options, world) for name, options in _EXCHANGES.items()}
        figures = alternate(_ROUNDS, "images/s", loops)
    if world.rank == 0:
        print(json.dumps({figure.what: figure.values for figure in figures}))


def _loop(options: ExchangeOptions, world: World) -> Callable[[], float]:
    execution = set_up(ImageModelOptions(), world)
    session = Session(world, Tracker({}), execution)
    torch.manual_seed(0)
    model = execution.place(CifarResNet(20))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    trainer = ImageTrainer(session, model, optimizer, lambda step: 0.1, options)
    batches = [random_images(BATCH // world.size)] * STEPS
    return lambda: STEPS * BATCH / timed(lambda: trainer.train(batches, BATCH))


if __name__ == "__main__":
    main()
