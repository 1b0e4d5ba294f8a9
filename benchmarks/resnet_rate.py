"""Images a second of ResNet-20: our loop, its options, plain PyTorch, and MLBench's own loop.

All loops train on the same 128 random images.
"""

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.loops import Loop, Loops, rates, run_environ
from benchmarks.measure import Figure, Ratio
from mlbench import Tracker
from mlbench.options import ExchangeOptions, ImageModelOptions
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.tasks.cifar10 import CifarResNet
from mlbench_worker.training.images import ImageTrainer
from mlbench_worker.training.session import Session

BATCH = 128
STEPS = 5
_SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
_CORE = "mlbench-core 3.0.0's ResNet-20, optimizer and metrics, fp32"


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of every loop, and how they compare."""
    figures = rates(__name__, LOOPS, "images/s", folder, _environ)
    plain, core, *ours = figures
    return [
        *figures,
        Ratio("our loop, fp32, beside mlbench-core's", ours[0].median / core.median),
        *(Ratio(f"{own.what}, beside plain PyTorch", own.median / plain.median) for own in ours),
    ]


def random_images(count: int = BATCH) -> Images:
    """Return images in CIFAR-10's shape."""
    torch.manual_seed(0)
    return Images(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))


def _ours(options: ImageModelOptions, folder: Path) -> Loop:
    """Make our loop, with all that a run records."""
    world = World()
    execution = set_up(options, world)
    session = Session(world, Tracker(run_environ(folder)), execution)
    model = execution.place(CifarResNet(20))
    optimizer = torch.optim.SGD(model.parameters(), fused=True, **_SGD)
    trainer = ImageTrainer(session, model, optimizer, lambda step: 0.1, ExchangeOptions())
    batches = [random_images()] * STEPS
    return lambda: trainer.train(batches, BATCH), STEPS * BATCH


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
    batch = random_images()

    def train() -> None:
        model.train()
        for _ in range(STEPS):
            optimizer.zero_grad()
            output = model(batch.images)
            loss = criterion(output, batch.labels)
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
            optimizer.step()
            record(output, batch.labels)
            loss.item()

    return train, STEPS * BATCH


_OPTIONS = {
    "our loop, fp32": ImageModelOptions(),
    "our loop, bf16": ImageModelOptions(precision="bf16"),
}
if shutil.which("g++"):
    _OPTIONS |= {
        "our loop, fp32, compiled": ImageModelOptions(compile=True),
        "our loop, bf16, compiled": ImageModelOptions(precision="bf16", compile=True),
    }
LOOPS: Loops = {
    "ResNet-20, batch 128: plain PyTorch, fp32": _plain,
    _CORE: _mlbench_core,
    **{name: partial(_ours, options) for name, options in _OPTIONS.items()},
}


def _environ(name: str) -> dict[str, str]:
    # All of mlbench-core, and what our environment lacks of it, behind our own.
    return {"PYTHONPATH": _site_packages()} if name == _CORE else {}


def _site_packages() -> str:
    script = Path(__file__).parents[1] / "scripts" / "get-mlbench-core.sh"
    python = subprocess.check_output([script], text=True).strip()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.check_output([python, "-c", where], text=True).strip()
