"""Compare twenty training steps in a framework with the same steps in PyTorch.

``python -m mlbench_frameworks.tests.framework_steps FRAMEWORK`` prints two figures per network: the
largest difference between the losses of a step, and between the scores after all steps.

JAX computes in double precision here, like PyTorch, so only an error can cause a difference.
TensorFlow computes in single precision. Its network has no batch norm, and its learning rate is
small because a large one amplifies rounding.
"""

import os
import sys
from typing import TYPE_CHECKING, cast

os.environ["JAX_ENABLE_X64"] = "1"

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mlbench_frameworks.compiled import Batch, Sgd
from mlbench_frameworks.models import Forward, cifar_resnet, of_module, resnet8
from mlbench_worker.ranks.distributed import World
from mlbench_worker.tasks.cifar10 import CifarResNet
from mlbench_worker.tasks.digits import ResNet8
from mlbench_worker.training.frameworks import load

if TYPE_CHECKING:
    from mlbench.benchmarks.tasks import CifarDepth, CifarVersion
    from mlbench_frameworks.training import CompiledFramework

_SHALLOW = cast("CifarDepth", 8)
_ROWS, _BATCH = 14, 16  # the last two rows are padding
_STEPS = 20


def main(framework: str) -> None:
    """Train each network in both frameworks."""
    torch.manual_seed(0)
    # One version per framework is enough: both share the forward functions, and XLA compiles
    # slowly.
    version: CifarVersion = 1 if framework == "jax" else 2
    train(framework, CifarResNet(_SHALLOW, version), cifar_resnet(version, _SHALLOW), (3, 16, 16))
    if framework != "jax":
        train(framework, ResNet8(1, 10, width=8), resnet8, (1, 8, 8))


def train(framework: str, model: nn.Module, forward: Forward, shape: tuple[int, ...]) -> None:
    """Train one network in both frameworks, on the same images."""
    dtype = torch.float64 if framework == "jax" else torch.float32
    rate = 0.1 if framework == "jax" else 0.001
    model = model.to(dtype)
    # Padding would change the statistics of batch norm, and the real task has no padded batches.
    rows = _BATCH if any(True for _ in model.buffers()) else _ROWS
    images = torch.randn(_STEPS, rows, *shape, dtype=dtype)
    labels = torch.randint(10, (_STEPS, rows))
    compiled = cast("CompiledFramework", load(framework)).compile(
        of_module(model, forward), Sgd(rows, 0.9, 1e-3), World(), batch(images[0], labels[0])
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=1e-3)
    apart = 0.0
    for some, right in zip(images, labels, strict=True):
        loss = functional.cross_entropy(model(some), right)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        scores = torch.tensor(compiled.step(batch(some, right), rate)[:rows])
        apart = max(apart, abs(loss.item() - functional.cross_entropy(scores, right).item()))
    compiled.load(compiled.state())  # like a restart from a checkpoint
    scores = torch.tensor(compiled.scores(batch(images[0], right).inputs)[:rows])
    print(apart, (model.eval()(images[0]) - scores).abs().max().item())


def batch(images: torch.Tensor, labels: torch.Tensor) -> Batch:
    """Return a batch, padded to the full size."""
    filling = (0, _BATCH - len(labels))
    pixels = images.permute(0, 2, 3, 1).numpy()
    weights = np.ones(len(labels), pixels.dtype)
    return Batch(
        np.pad(pixels, (filling, (0, 0), (0, 0), (0, 0))),
        np.pad(labels.numpy().astype(np.int32), (filling,)),
        np.pad(weights, (filling,)),
    )


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)
