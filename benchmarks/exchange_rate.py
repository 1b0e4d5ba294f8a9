"""Images a second of ResNet-20 on two workers of one thread each, by gradient exchange."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.measure import Figure, Ratio
from benchmarks.resnet_loops import BATCH, STEPS, random_images
from benchmarks.servers import free_port
from mlbench import Tracker
from mlbench.options import ExchangeOptions, ImageModelOptions
from mlbench_worker.ranks.distributed import World, join_world, set_up
from mlbench_worker.tasks.cifar10 import CifarResNet
from mlbench_worker.training.images import ImageTrainer
from mlbench_worker.training.session import Session

_RANKS = 2
_ROUNDS = 7
_WAYS = {
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
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.exchange_rate"],
            env=os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(_RANKS),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(_RANKS)
    ]
    output, _ = [rank.communicate()[0] for rank in ranks]
    rates = json.loads(output)
    figures = {
        way: Figure(f"ResNet-20 on two gloo workers, {way}", "images/s", rates[way])
        for way in rates
    }
    return [
        *figures.values(),
        *(
            Ratio(f"{way}, beside ddp", figures[way].median / figures["ddp"].median)
            for way in ("flat", "per-layer")
        ),
    ]


def main() -> None:
    """Be one rank; rank 0 prints the rates of all ways."""
    with join_world() as world:
        loops = {way: _loop(chosen, world) for way, chosen in _WAYS.items()}
        for train in loops.values():
            train()
        rounds = [{way: _rate(train) for way, train in loops.items()} for _ in range(_ROUNDS)]
    if world.rank == 0:
        print(json.dumps({way: [rates[way] for rates in rounds] for way in loops}))


def _loop(chosen: ExchangeOptions, world: World) -> Callable[[], object]:
    tracker = Tracker({})
    execution = set_up(ImageModelOptions(), world)
    session = Session(world, tracker, execution)
    torch.manual_seed(0)
    model = execution.place(CifarResNet(20))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    trainer = ImageTrainer(session, model, optimizer, lambda step: 0.1, chosen)
    batches = [random_images(BATCH // world.size)] * STEPS
    return lambda: trainer.train(batches, BATCH)


def _rate(train: Callable[[], object]) -> float:
    begin = time.perf_counter()
    train()
    return STEPS * BATCH / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
