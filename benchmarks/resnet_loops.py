"""Training loops of ResNet-20, one for each process: trains when told to, and tells its speed.

``python -m benchmarks.resnet_loops LOOP FOLDER``: for every line on standard input it trains a few
steps of 128 images and prints the images a second. All loops train on the same tensors.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.loops import answer, run_environ, void
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

OURS = {
    "fp32": ImageModelOptions(),
    "fp32, compiled": ImageModelOptions(compile=True),
    "bf16": ImageModelOptions(precision="bf16"),
    "bf16, compiled": ImageModelOptions(precision="bf16", compile=True),
}


def random_images(count: int = BATCH) -> Images:
    """Return images in CIFAR-10's shape."""
    torch.manual_seed(0)
    return Images(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))


def ours(options: ImageModelOptions, folder: Path) -> Callable[[], None]:
    """Return our loop, with all that a run records."""
    world, tracker = World(), Tracker(run_environ(folder))
    execution = set_up(options, world)
    session = Session(world, tracker, execution)
    model = execution.place(CifarResNet(20))
    optimizer = torch.optim.SGD(model.parameters(), fused=True, **_SGD)
    trainer = ImageTrainer(session, model, optimizer, lambda step: 0.1, ExchangeOptions())
    batches = [random_images()] * STEPS
    return lambda: void(trainer.train(batches, BATCH))


def plain() -> Callable[[], None]:
    """Return the same training written down plainly in PyTorch."""
    model = CifarResNet(20)
    optimizer = torch.optim.SGD(model.parameters(), **_SGD)
    batch = random_images()

    def train() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(batch.images), batch.labels)
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
            optimizer.step()
            loss.item()

    return train


def mlbench_core() -> Callable[[], None]:
    """Return MLBench's own: its ResNet, its optimizer, its loop's metrics, without its tracker."""
    from mlbench_core.controlflow.pytorch import compute_train_batch_metrics  # noqa: PLC0415 - may be missing
    from mlbench_core.evaluation.pytorch.metrics import TopKAccuracy  # noqa: PLC0415 - may be missing
    from mlbench_core.models.pytorch.resnet import ResNetCIFAR  # noqa: PLC0415 - may be missing
    from mlbench_core.optim.pytorch.centralized import CustomCentralizedOptimizer  # noqa: PLC0415 - may be missing

    model = ResNetCIFAR(20, bottleneck=False, num_classes=10, version=1)
    optimizer = CustomCentralizedOptimizer(
        model, 1, torch.optim.SGD(model.parameters(), **_SGD), average_world=True
    )
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    batch, criterion = random_images(), nn.CrossEntropyLoss()

    def train() -> None:
        model.train()
        for _ in range(STEPS):
            optimizer.zero_grad()
            output = model(batch.images)
            loss = criterion(output, batch.labels)
            loss.backward()
            optimizer.step()
            compute_train_batch_metrics(output, batch.labels, metrics)
            loss.item()

    return train


def main() -> None:
    """Answer each line with a speed."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    if name == "mlbench-core":
        train = mlbench_core()
    elif name == "plain":
        train = plain()
    else:
        train = ours(OURS[name], folder)
    answer(train, STEPS * BATCH)


if __name__ == "__main__":
    main()
