"""The tasks' models and losses as plain functions, for any framework with a few operations.

Images are ``[n, height, width, channels]`` and kernels ``[height, width, in, out]``, as in JAX and
TensorFlow on CPUs. Weights have the names and initial values of the task's PyTorch model, which
also describes the architecture.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from mlbench.benchmarks.tasks import (
    Cifar10Options,
    CifarDepth,
    CifarVersion,
    DigitsOptions,
    LinearModel,
)

Array = Any
"""An array of the framework."""

_EPSILON = 1e-5
_MOMENTUM = 0.1
"""Weight of the newest batch in running statistics."""
_GROUP = 8
"""Number of channels that group normalization normalizes together."""


class Operations(Protocol):
    """The operations of a framework."""

    def conv(self, x: Array, kernel: Array, stride: int, padding: int) -> Array: ...

    def batch_norm(self, x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
        """Return the normalized images, their mean, and their unbiased variance."""

    def product(self, rows: Array, weights: Array) -> Array:
        """Return the rows times a matrix or a vector of weights."""

    def mean(self, x: Array, axes: Sequence[int], *, keepdims: bool = False) -> Array: ...

    def relu(self, x: Array) -> Array: ...

    def softplus(self, x: Array) -> Array:
        """Return log(1 + exp(x))."""

    def rsqrt(self, x: Array) -> Array:
        """Return 1 / sqrt(x)."""

    def pad(self, x: Array, channels: int) -> Array:
        """Add ``channels`` channels of zeros before and after the channels of images."""

    def reshape(self, x: Array, shape: Sequence[int]) -> Array: ...

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        """Return the cross entropy of each row ``[n]``."""


@dataclass
class Net:
    """A forward pass: the operations, the weights by name, and updated running statistics."""

    ops: Operations
    weights: Mapping[str, Array]
    training: bool
    updated: dict[str, Array] = field(default_factory=dict)
    """New running statistics after a pass in training."""

    def conv(self, name: str, x: Array, stride: int = 1) -> Array:
        """Return a convolution that divides the size by ``stride``."""
        kernel = self.weights[f"{name}.weight"]
        return self.ops.conv(x, kernel, stride, padding=kernel.shape[0] // 2)

    def linear(self, name: str, x: Array) -> Array:
        product = self.ops.product(x, self.weights[f"{name}.weight"])
        return product + self.weights[f"{name}.bias"]

    def group_norm(self, name: str, x: Array) -> Array:
        """Normalize each image in groups of channels."""
        n, height, width, channels = x.shape
        grouped = self.ops.reshape(x, (n, height, width, channels // _GROUP, _GROUP))
        centred = grouped - self.ops.mean(grouped, (1, 2, 4), keepdims=True)
        variance = self.ops.mean(centred * centred, (1, 2, 4), keepdims=True)
        x = self.ops.reshape(centred * self.ops.rsqrt(variance + _EPSILON), x.shape)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def batch_norm(self, name: str, x: Array) -> Array:
        """Normalize images over this rank's batch in training, else by the running statistics."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        running = [f"{name}.running_mean", f"{name}.running_var"]
        mean, variance = (self.weights[statistic] for statistic in running)
        if not self.training:
            return (x - mean) * (self.ops.rsqrt(variance + _EPSILON) * weight) + bias
        x, *statistics = self.ops.batch_norm(x, weight, bias)
        for statistic, new in zip(running, statistics, strict=True):
            self.updated[statistic] = (1 - _MOMENTUM) * self.weights[statistic] + _MOMENTUM * new
        return x


Forward = Callable[[Net, Array], Array]
"""Maps inputs to scores."""
Loss = Callable[[Operations, Array, Array], Array]
"""Maps scores and targets to the loss of each row ``[n]``."""


@dataclass(frozen=True)
class Model:
    """A model and its initial weights."""

    forward: Forward
    loss: Loss
    parameters: Mapping[str, np.ndarray]
    buffers: Mapping[str, np.ndarray]
    """Running statistics."""


def of_module(module: nn.Module, forward: Forward) -> Model:
    """Return the classifier with the weights of a PyTorch module."""

    def transposed(parameter: torch.Tensor) -> np.ndarray:
        """Return a copy: a kernel as ``[height, width, in, out]``, a matrix as ``[in, out]``."""
        values: np.ndarray = parameter.detach().numpy()
        order = (2, 3, 1, 0) if values.ndim > 2 else range(values.ndim)[::-1]
        return np.array(values.transpose(tuple(order)), order="C")

    return Model(
        forward,
        cross_entropy,
        {name: transposed(parameter) for name, parameter in module.named_parameters()},
        {name: buffer.numpy().copy() for name, buffer in module.named_buffers() if buffer.ndim},
    )


def scores(net: Net, x: Array) -> Array:
    """Return the scores of rows for ``mlbench_worker.tasks.digits_linear`` and ``linear``."""
    return net.ops.product(x, net.weights["weights"])


def resnet8(net: Net, x: Array) -> Array:
    """Return the logits of images for ``mlbench_worker.tasks.digits``."""
    relu = net.ops.relu
    x = relu(net.group_norm("norm", net.conv("stem", x)))
    for number, stride in enumerate((1, 2, 2)):
        block = f"blocks.{number}"
        residual = relu(net.group_norm(f"{block}.norm1", net.conv(f"{block}.conv1", x, stride)))
        residual = net.group_norm(f"{block}.norm2", net.conv(f"{block}.conv2", residual))
        if stride > 1:
            x = net.group_norm(f"{block}.shortcut.1", net.conv(f"{block}.shortcut.0", x, stride))
        x = relu(residual + x)
    return net.linear("classifier", net.ops.mean(x, (1, 2)))


def cifar_resnet(version: CifarVersion, depth: CifarDepth) -> Forward:
    """Return the forward pass for ``mlbench_worker.tasks.cifar10``."""
    number = (depth - 2) // 6

    def forward(net: Net, x: Array) -> Array:
        x = net.ops.relu(net.batch_norm("first_norm", net.conv("stem", x)))
        for block in range(3 * number):
            stride = 2 if block in {number, 2 * number} else 1
            x = (_block_v1 if version == 1 else _block_v2)(net, block, x, stride)
        if version > 1:
            x = net.ops.relu(net.batch_norm("last_norm", x))
        return net.linear("classifier", net.ops.mean(x, (1, 2)))

    return forward


def forward_of(config: DigitsOptions | Cifar10Options) -> Forward:
    """Return the forward pass of a task's network."""
    if isinstance(config, Cifar10Options):
        return cifar_resnet(config.version, config.depth)
    return resnet8


def _block_v1(net: Net, number: int, x: Array, stride: int) -> Array:
    block = f"stages.{number}"
    residual = net.conv(f"{block}.conv1", x, stride)
    residual = net.ops.relu(net.batch_norm(f"{block}.norm1", residual))
    residual = net.batch_norm(f"{block}.norm2", net.conv(f"{block}.conv2", residual))
    return net.ops.relu(residual + _shortcut(net, x, stride))


def _block_v2(net: Net, number: int, x: Array, stride: int) -> Array:
    block = f"stages.{number}"
    # The input of the first block is already normalized and activated.
    active = net.ops.relu(net.batch_norm(f"{block}.norm1", x)) if number else x
    residual = net.conv(f"{block}.conv1", active, stride)
    residual = net.ops.relu(net.batch_norm(f"{block}.norm2", residual))
    return net.conv(f"{block}.conv2", residual) + _shortcut(net, x, stride)


def _shortcut(net: Net, x: Array, stride: int) -> Array:
    """Return the input in the shape of the residual: every second pixel, zeros as new channels."""
    return x if stride == 1 else net.ops.pad(x[:, ::2, ::2, :], x.shape[-1] // 2)


LINEAR: Mapping[LinearModel, Loss] = {
    "logistic": lambda ops, scores, targets: ops.softplus(-targets * scores),
    "ridge": lambda ops, scores, targets: (scores - targets) ** 2 / 2,
    "svm": lambda ops, scores, targets: ops.relu(1 - targets * scores) ** 2,
}
"""The loss of each model of ``mlbench_worker.tasks.linear``."""


def cross_entropy(ops: Operations, scores: Array, labels: Array) -> Array:
    """Return the loss of classifiers."""
    return ops.cross_entropy(scores, labels)
