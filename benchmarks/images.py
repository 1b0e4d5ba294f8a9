"""Speed of ResNet-20's loop: against plain PyTorch and mlbench-core, by exchange, with recording.

All loops train on the same 128 random images. ``python -m benchmarks.images`` is a rank of
``exchange_rate``.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional

from benchmarks.loops import Loop, Loops, plain_training, rates, session, tracker_of_a_run
from benchmarks.measure import Figure, Ratio, alternate, timed
from mlbench import Tracker
from mlbench.benchmarks.task_options import Exchange, ExchangeOptions, ImageModelOptions
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World, join_world
from mlbench_worker.tasks.cifar10 import CifarResNet
from mlbench_worker.training.image_trainer import ImageTrainer
from mlbench_worker.training.session import Session
from tests.support.ranks import start_ranks

_BATCH = 128
_STEPS, _TINY_STEPS = 5, 1000
_SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
_RANKS = 2
_EXCHANGES_SECONDS = 1200.0
_EXCHANGES = {
    # But the one that begins as ddp.
    **{name: ExchangeOptions(name) for name in get_args(Exchange) if name != "post-local-sgd"},
    "ddp, fp16": ExchangeOptions("ddp", "fp16"),
    "ddp, bf16": ExchangeOptions("ddp", "bf16"),
    "choco, topk": ExchangeOptions("choco", gossip_compression="topk"),
}


def resnet_rate(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of every loop, and how they compare."""
    figures = rates(_RESNETS, "images/s", folder)
    plain, core, *ours = figures
    return [
        *figures,
        Ratio("our loop, fp32, beside mlbench-core's", ours[0].median / core.median),
        *(
            Ratio(f"{figure.name}, beside plain PyTorch", figure.median / plain.median)
            for figure in ours
        ),
    ]


def exchange_rate(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of both workers together for every exchange, taken in turn."""
    ranks = start_ranks(folder, _RANKS, "-m", "benchmarks.images")
    output, _ = ranks[0].output(_EXCHANGES_SECONDS)
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


def step_cost(folder: Path) -> list[Figure]:
    """Return µs a step of the image tasks' loop around a tiny model, with and without recording."""
    return [
        Figure(figure.name, "µs", [1e6 / rate for rate in figure.values])
        for figure in rates(_TINY, "steps/s", folder)
    ]


def _random_images(count: int = _BATCH) -> Images:
    """Return images in CIFAR-10's shape."""
    torch.manual_seed(0)
    return Images(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))


def _trainer(
    model: nn.Module,
    options: ImageModelOptions,
    tracker: Tracker,
    exchange: ExchangeOptions | None = None,
    world: World | None = None,
) -> ImageTrainer:
    """Return what trains a model as the tasks do, with all that a run records."""
    rank = session(options, tracker, world)
    model = rank.execution.place(model)
    optimizer = torch.optim.SGD(model.parameters(), fused=True, **_SGD)
    return ImageTrainer(rank, model, optimizer, lambda step: 0.1, exchange or ExchangeOptions())


def _ours(options: ImageModelOptions, folder: Path) -> Loop:
    trainer = _trainer(CifarResNet(20), options, tracker_of_a_run(folder))
    batches = [_random_images()] * _STEPS
    return lambda: trainer.train(batches, _BATCH), _STEPS * _BATCH


def _exchanging(exchange: ExchangeOptions, world: World) -> Callable[[], float]:
    torch.manual_seed(0)
    trainer = _trainer(CifarResNet(20), ImageModelOptions(), Tracker({}), exchange, world)
    batches = [_random_images(_BATCH // world.size)] * _STEPS
    return lambda: _STEPS * _BATCH / timed(lambda: trainer.train(batches, _BATCH))


def _tiny(folder: Path) -> Loop:
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    options = ImageModelOptions(device="cpu", channels_last=False)
    trainer = _trainer(model, options, tracker_of_a_run(folder))
    batches = [Images(torch.zeros(2, 1, 1, 1), torch.tensor([0, 1]))] * _TINY_STEPS
    return lambda: trainer.train(batches, 2), _TINY_STEPS


def _tiny_without_recording(folder: Path) -> Loop:
    """Make the same loop in a process that neither reads the clock nor records a step."""
    patch.object(Session, "phase", lambda *_: nullcontext()).start()
    patch.object(Tracker, "step", lambda *_, **__: None).start()
    return _tiny(folder)


def _plain(_: Path) -> Loop:
    """Make the same training, written down plainly in PyTorch."""
    model = CifarResNet(20)
    optimizer = torch.optim.SGD(model.parameters(), **_SGD)

    def loss(batch: Images) -> torch.Tensor:
        return functional.cross_entropy(model(batch.images), batch.labels)

    return plain_training(model, optimizer, [_random_images()] * _STEPS, loss), _STEPS * _BATCH


def _mlbench_core(_: Path) -> Loop:
    """Return mlbench-core's loop: its ResNet, optimizer and metrics, without its tracker."""
    # mlbench-core's packages come last on the path, so that ours take precedence.
    script = Path(__file__).parents[1] / "scripts" / "get-mlbench-core.sh"
    python = Path(subprocess.check_output([script], text=True).strip())
    sys.path += map(str, python.parents[1].glob("lib/python*/site-packages"))
    from mlbench_core.controlflow.pytorch import compute_train_batch_metrics  # noqa: PLC0415 - may be missing
    from mlbench_core.evaluation.pytorch.metrics import TopKAccuracy  # noqa: PLC0415 - may be missing
    from mlbench_core.models.pytorch.resnet import ResNetCIFAR  # noqa: PLC0415 - may be missing
    from mlbench_core.optim.pytorch.centralized import CustomCentralizedOptimizer  # noqa: PLC0415 - may be missing

    model = ResNetCIFAR(20, bottleneck=False, num_classes=10, version=1)
    optimizer = CustomCentralizedOptimizer(
        model, 1, torch.optim.SGD(model.parameters(), **_SGD), average_world=True
    )
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]

    def loss(batch: Images) -> torch.Tensor:
        output = model(batch.images)
        compute_train_batch_metrics(output, batch.labels, metrics)
        return functional.cross_entropy(output, batch.labels)

    return plain_training(model, optimizer, [_random_images()] * _STEPS, loss), _STEPS * _BATCH


_OPTIONS = {
    "our loop, fp32": ImageModelOptions(),
    "our loop, bf16": ImageModelOptions(precision="bf16"),
}
if shutil.which("g++"):
    _OPTIONS |= {
        "our loop, fp32, compiled": ImageModelOptions(compile=True),
        "our loop, bf16, compiled": ImageModelOptions(precision="bf16", compile=True),
    }
_RESNETS: Loops = {
    "ResNet-20, batch 128: plain PyTorch, fp32": _plain,
    "mlbench-core 3.0.0's ResNet-20, optimizer and metrics, fp32": _mlbench_core,
    **{name: partial(_ours, options) for name, options in _OPTIONS.items()},
}


_TINY: Loops = {
    "a step of the loop around a tiny model": _tiny,
    "the same without our instrumentation": _tiny_without_recording,
}


def main() -> None:
    """Be one rank; rank 0 prints the rates of all exchanges."""
    with join_world() as world:
        loops = {name: _exchanging(options, world) for name, options in _EXCHANGES.items()}
        figures = alternate(7, "images/s", loops)
    if world.rank == 0:
        print(json.dumps({figure.name: figure.values for figure in figures}))


if __name__ == "__main__":
    main()
