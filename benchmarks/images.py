"""ResNet-20's loop: beside plain PyTorch and MLBench's own, by exchange, and what recording costs.

All loops train on the same 128 random images. ``python -m benchmarks.images`` is a rank of
``exchange_rate``.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.loops import Loop, Loops, rates, run_environ
from benchmarks.measure import Figure, Ratio, alternate, timed
from benchmarks.servers import free_port
from mlbench import Tracker
from mlbench.names import Phase
from mlbench.options import ExchangeOptions, ImageModelOptions
from mlbench.recorder import Value
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World, join_world, set_up
from mlbench_worker.tasks.cifar10 import CifarResNet
from mlbench_worker.training.images import ImageTrainer
from mlbench_worker.training.session import Session

_BATCH = 128
_STEPS, _TINY_STEPS = 5, 1000
_SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
_CORE = "mlbench-core 3.0.0's ResNet-20, optimizer and metrics, fp32"
_RANKS = 2
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


def resnet_rate(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of every loop, and how they compare."""
    figures = rates(__name__, _RESNETS, "images/s", folder, _environ)
    plain, core, *ours = figures
    return [
        *figures,
        Ratio("our loop, fp32, beside mlbench-core's", ours[0].median / core.median),
        *(Ratio(f"{own.what}, beside plain PyTorch", own.median / plain.median) for own in ours),
    ]


def exchange_rate(folder: Path) -> list[Figure | Ratio]:
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
            [sys.executable, "-m", "benchmarks.images"],
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


def step_cost(folder: Path) -> list[Figure]:
    """Return µs a step of the image tasks' loop around a tiny model, with and without recording."""
    return [
        Figure(figure.what, "µs", [1e6 / rate for rate in figure.values])
        for figure in rates(__name__, _TINY, "steps/s", folder)
    ]


def _random_images(count: int = _BATCH) -> Images:
    """Return images in CIFAR-10's shape."""
    torch.manual_seed(0)
    return Images(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))


def _trainer(
    model: nn.Module,
    options: ImageModelOptions,
    tracker: Tracker,
    session: type[Session] = Session,
    exchange: ExchangeOptions | None = None,
    world: World | None = None,
) -> ImageTrainer:
    """Return what trains a model as the tasks do, with all that a run records."""
    world = world or World()
    execution = set_up(options, world)
    model = execution.place(model)
    optimizer = torch.optim.SGD(model.parameters(), fused=True, **_SGD)
    return ImageTrainer(
        session(world, tracker, execution),
        model,
        optimizer,
        lambda step: 0.1,
        exchange or ExchangeOptions(),
    )


def _ours(options: ImageModelOptions, folder: Path) -> Loop:
    trainer = _trainer(CifarResNet(20), options, Tracker(run_environ(folder)))
    batches = [_random_images()] * _STEPS
    return lambda: trainer.train(batches, _BATCH), _STEPS * _BATCH


def _exchanging(exchange: ExchangeOptions, world: World) -> Callable[[], float]:
    torch.manual_seed(0)
    options = ImageModelOptions()
    trainer = _trainer(CifarResNet(20), options, Tracker({}), exchange=exchange, world=world)
    batches = [_random_images(_BATCH // world.size)] * _STEPS
    return lambda: _STEPS * _BATCH / timed(lambda: trainer.train(batches, _BATCH))


def _tiny(session: type[Session], tracker: type[Tracker], folder: Path) -> Loop:
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    options = ImageModelOptions(device="cpu", channels_last=False)
    trainer = _trainer(model, options, tracker(run_environ(folder)), session)
    batches = [Images(torch.zeros(2, 1, 1, 1), torch.tensor([0, 1]))] * _TINY_STEPS
    return lambda: trainer.train(batches, 2), _TINY_STEPS


def _plain(_: Path) -> Loop:
    """Make the same training, written down plainly in PyTorch."""
    model = CifarResNet(20)
    optimizer = torch.optim.SGD(model.parameters(), **_SGD)
    return _steps(model, optimizer, functional.cross_entropy, lambda output, labels: None)


def _mlbench_core(_: Path) -> Loop:
    """Make MLBench's own: its ResNet, its optimizer, its loop's metrics, without its tracker."""
    from mlbench_core.controlflow.pytorch import compute_train_batch_metrics  # noqa: PLC0415 - may be missing
    from mlbench_core.evaluation.pytorch.metrics import TopKAccuracy  # noqa: PLC0415 - may be missing
    from mlbench_core.models.pytorch.resnet import ResNetCIFAR  # noqa: PLC0415 - may be missing
    from mlbench_core.optim.pytorch.centralized import CustomCentralizedOptimizer  # noqa: PLC0415 - may be missing

    model = ResNetCIFAR(20, bottleneck=False, num_classes=10, version=1)
    optimizer = CustomCentralizedOptimizer(
        model, 1, torch.optim.SGD(model.parameters(), **_SGD), average_world=True
    )
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    return _steps(
        model,
        optimizer,
        nn.CrossEntropyLoss(),
        lambda output, labels: compute_train_batch_metrics(output, labels, metrics),
    )


def _steps(
    model: nn.Module, optimizer: Any, criterion: Callable[..., torch.Tensor], record: Any
) -> Loop:
    batch = _random_images()

    def train() -> None:
        model.train()
        for _ in range(_STEPS):
            optimizer.zero_grad()
            output = model(batch.images)
            loss = criterion(output, batch.labels)
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
            optimizer.step()
            record(output, batch.labels)
            loss.item()

    return train, _STEPS * _BATCH


class _Uninstrumented(Session):
    """Does not look at the clock."""

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Do nothing more."""
        yield


class _Silent(Tracker):
    """Records nothing."""

    def step(self, samples: int, **metrics: Value) -> None:
        """Forget the step."""


def _environ(name: str) -> dict[str, str]:
    # All of mlbench-core, and what our environment lacks of it, behind our own.
    return {"PYTHONPATH": _site_packages()} if name == _CORE else {}


def _site_packages() -> str:
    script = Path(__file__).parents[1] / "scripts" / "get-mlbench-core.sh"
    python = subprocess.check_output([script], text=True).strip()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.check_output([python, "-c", where], text=True).strip()


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
    _CORE: _mlbench_core,
    **{name: partial(_ours, options) for name, options in _OPTIONS.items()},
}


_TINY: Loops = {
    "a step of the loop around a tiny model": partial(_tiny, Session, Tracker),
    "the same without our instrumentation": partial(_tiny, _Uninstrumented, _Silent),
}
LOOPS: Loops = {**_RESNETS, **_TINY}


def main() -> None:
    """Be one rank; rank 0 prints the rates of all exchanges."""
    with join_world() as world:
        loops = {name: _exchanging(options, world) for name, options in _EXCHANGES.items()}
        figures = alternate(7, "images/s", loops)
    if world.rank == 0:
        print(json.dumps({figure.what: figure.values for figure in figures}))


if __name__ == "__main__":
    main()
