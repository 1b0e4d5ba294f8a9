"""Frameworks that train official tasks in place of PyTorch, on CPUs. Extensions register them."""

from typing import Protocol, cast

import torch
from torch import nn

from mlbench import MLBenchError
from mlbench.benchmarks.options import Options
from mlbench.benchmarks.task_options import framework_of
from mlbench.benchmarks.tasks import (
    Cifar10Options,
    DigitsLinearOptions,
    DigitsOptions,
    LinearOptions,
)
from mlbench.contract.distribution import how_to_install
from mlbench.contract.extensions import registered
from mlbench_worker.data.images import Images
from mlbench_worker.training.checkpoint import Stateful
from mlbench_worker.training.image_trainer import ImageTrainer
from mlbench_worker.training.schedules import Schedule
from mlbench_worker.training.session import Session


class FrameworkError(MLBenchError):
    """A framework is not installed."""


class LinearSteps(Stateful, Protocol):
    """The steps of a model with one matrix or vector of weights.

    Between epochs, and in checkpoints, the weights are in PyTorch's tensor.
    """

    def begin(self) -> None:
        """Copy the weights from PyTorch's tensor, which a checkpoint may have replaced."""

    def step(self, rows: torch.Tensor, targets: torch.Tensor, rate: float) -> torch.Tensor:
        """Take a step with all ranks; return the scores of this rank's rows before it."""

    def end(self) -> None:
        """Copy the weights to PyTorch's tensor."""


class Framework(Protocol):
    """A framework, as an entry point of ``mlbench.frameworks`` names it.

    Each method joins the other ranks, and compiles the steps of a task.
    """

    @property
    def version(self) -> str: ...

    def image_trainer(
        self,
        session: Session,
        config: DigitsOptions | Cifar10Options,
        model: nn.Module,
        schedule: Schedule,
        train: Images,
        batch_size: int,
    ) -> ImageTrainer:
        """Return a trainer of the task's model by SGD with momentum, as ``make_trainer`` does."""

    def linear_steps(
        self, session: Session, config: LinearOptions | DigitsLinearOptions, weights: torch.Tensor
    ) -> LinearSteps: ...


def load(name: str) -> Framework:
    """Import a framework other than PyTorch.

    Raises:
        FrameworkError: it is not installed.
    """
    try:
        return cast("Framework", registered("mlbench.frameworks")[name].load())
    except (ImportError, KeyError) as error:
        raise FrameworkError(
            f"framework {name} cannot be imported here ({error}): {how_to_install(name)}"
        ) from error


def versions(config: Options) -> dict[str, str]:
    """Return the version of the framework, to record; empty for PyTorch."""
    name = framework_of(config)
    return {} if name == "torch" else {name: load(name).version}


def make_trainer(
    session: Session,
    config: DigitsOptions | Cifar10Options,
    model: nn.Module,
    schedule: Schedule,
    train: Images,
    batch_size: int,
) -> ImageTrainer:
    """Return a trainer of a model by SGD with momentum, in the framework of the options.

    ``train`` contains the training images. ``batch_size`` counts the images of all ranks in a step.
    """
    if config.framework != "torch":
        framework = load(config.framework)
        return framework.image_trainer(session, config, model, schedule, train, batch_size)
    model = session.execution.place(model)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        fused=True,
    )
    return ImageTrainer(session, model, optimizer, schedule, exchange=config)
