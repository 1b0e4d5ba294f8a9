"""Training of image classifiers and linear models in a framework other than PyTorch.

Only the step is the framework's. Data order, initial weights, schedule, scores, checkpoints and the
deadline use the same code as with PyTorch, so the process also joins PyTorch's process group.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import (
    Cifar10Options,
    DigitsLinearOptions,
    DigitsOptions,
    LinearOptions,
)
from mlbench_frameworks.compiled import Batch, Compile, Compiled, Sgd, State
from mlbench_frameworks.models import (
    LINEAR,
    Loss,
    Model,
    cross_entropy,
    forward_of,
    of_module,
    scores,
)
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.checkpoint import Stateful
from mlbench_worker.training.exchange.exchange_base import Exchange, average
from mlbench_worker.training.image_trainer import ImageScore, ImageTrainer
from mlbench_worker.training.schedules import Schedule
from mlbench_worker.training.session import Session
from mlbench_worker.training.trainer import TrainingOutcome, state_of

_WEIGHTS = "weights"


@dataclass(frozen=True)
class CompiledFramework:
    """A framework that compiles the steps of official tasks."""

    name: str
    version: str
    compile: Compile

    def image_trainer(
        self,
        session: Session,
        config: DigitsOptions | Cifar10Options,
        model: nn.Module,
        schedule: Schedule,
        train: Images,
        batch_size: int,
    ) -> ImageTrainer:
        """Join the other ranks, and compile the step of a task's network."""
        return CompiledTrainer(self, session, config, model, schedule, train, batch_size)

    def linear_steps(
        self, session: Session, config: LinearOptions | DigitsLinearOptions, weights: torch.Tensor
    ) -> "LinearSteps":
        """Join the other ranks, and compile the step of a task's linear model."""
        loss = LINEAR[config.model] if isinstance(config, LinearOptions) else cross_entropy
        sgd = Sgd(config.batch_size, weight_decay=config.l2)
        return LinearSteps(self, session, weights, loss, sgd)

    def start(self, session: Session, model: Model, sgd: Sgd, example: Batch) -> Compiled:
        """Join the other ranks, and compile the step for batches of the example's shape."""
        with session.tracker.phase("compile"):
            compiled = self.compile(model, sgd, session.world, example)
        session.at_exit.append(compiled.leave)
        return compiled


class CompiledTrainer(ImageTrainer):
    """Trains by steps each of which is one program of the framework.

    The parts of a program cannot be timed separately, so its whole time is in the phase "compute".
    The time to compile it is not training time.
    """

    def __init__(
        self,
        framework: CompiledFramework,
        session: Session,
        config: DigitsOptions | Cifar10Options,
        model: nn.Module,
        schedule: Schedule,
        train: Images,
        batch_size: int,
    ) -> None:
        """Join the other ranks, and compile the step."""
        self.session, self.model, self.schedule = session, model, schedule
        self._share = math.ceil(batch_size / session.world.size)
        initial = of_module(model, forward_of(config))
        sgd = Sgd(batch_size, config.momentum, config.weight_decay)
        example = self._batch(self.place(train.take(slice(1))))
        self._compiled = framework.start(session, initial, sgd, example)
        seconds = session.tracker.phase_seconds()["compile"]
        print(f"{framework.name}: compiled in {seconds:.1f} s", flush=True)
        self.exchange = _Compiled(model, session.world, self._compiled)

    @property
    def parts(self) -> dict[str, Stateful]:
        return {"exchange": self.exchange, **state_of(self.schedule)}

    def place(self, batch: Images) -> Images:
        """Return a batch with images ``[n, height, width, channels]``, for frameworks on CPUs."""
        return replace(batch, images=batch.images.permute(0, 2, 3, 1).contiguous())

    def step(self, batch: Images, batch_size: int) -> tuple[TrainingOutcome[ImageScore], float]:
        rate = self.rate(batch)
        with self.session.phase("compute"):
            scores = self._compiled.step(self._batch(batch), rate)
        self.exchange.after_step()
        return _outcome(scores, batch), rate

    def compute(self, model: nn.Module, batch: Images) -> TrainingOutcome[ImageScore]:
        """Return the loss and score of a batch in validation."""
        return _outcome(self._compiled.scores(batch.images.numpy()), batch)

    def _batch(self, placed: Images) -> Batch:
        """Return this rank's share of a batch, padded to the largest share of all ranks."""
        return Batch.filled(placed.images, placed.labels, self._share)


class _Compiled(Exchange):
    """The exchange inside the compiled step: one sum of all gradients over the ranks."""

    def __init__(self, model: nn.Module, world: World, compiled: Compiled) -> None:
        super().__init__(model, world)
        self._compiled = compiled
        self._bytes = sum(parameter.nbytes for parameter in model.parameters())

    def after_step(self) -> None:
        self.count_sum(self._bytes)

    def averaged(self, model: nn.Module) -> nn.Module:
        """Average the running statistics of batch norm, which each rank computes on its own."""
        state, world = self._compiled.state(), self.world
        if world.size > 1 and state.buffers:
            buffers = {name: torch.tensor(values) for name, values in state.buffers.items()}
            average(buffers.values(), world)
            means = {name: buffer.numpy() for name, buffer in buffers.items()}
            self._compiled.load(replace(state, buffers=means))
        return model

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            kind: {name: torch.tensor(array) for name, array in arrays.items()}
            for kind, arrays in vars(self._compiled.state()).items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        kinds = (state[kind] for kind in ("parameters", "velocities", "buffers"))
        arrays = ({name: tensor.numpy() for name, tensor in kind.items()} for kind in kinds)
        self._compiled.load(State(*arrays))


def _outcome(scores: np.ndarray, batch: Images) -> TrainingOutcome[ImageScore]:
    """Return the loss and score of a batch; rows of ``scores`` beyond its length are padding."""
    logits = torch.tensor(scores[: len(batch)])
    loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
    return TrainingOutcome(loss, lambda: ImageScore.of(logits, batch.labels, loss))


class LinearSteps:
    """Takes the steps of a model with one matrix or vector of weights, with an L2 penalty.

    Between epochs, and in checkpoints, the weights are in PyTorch's tensor.
    """

    def __init__(
        self,
        framework: CompiledFramework,
        session: Session,
        weights: torch.Tensor,
        loss: Loss,
        sgd: Sgd,
    ) -> None:
        """Join the other ranks, and compile the step."""
        self._session = session
        self._weights = weights
        self._share = math.ceil(sgd.batch_size / session.world.size)
        initial = Model(scores, loss, {_WEIGHTS: weights.numpy().copy()}, {})
        # With weights for each class, targets are the numbers of classes.
        target = torch.zeros(1, dtype=torch.int64 if weights.ndim > 1 else torch.float32)
        example = Batch.filled(torch.zeros(1, len(weights)), target, self._share)
        self._compiled = framework.start(session, initial, sgd, example)

    def begin(self) -> None:
        """Copy the weights from PyTorch's tensor, which a checkpoint may have replaced."""
        zeros = {_WEIGHTS: np.zeros(self._weights.shape, np.float32)}
        self._compiled.load(State({_WEIGHTS: self._weights.numpy().copy()}, zeros, {}))

    def step(self, rows: torch.Tensor, targets: torch.Tensor, rate: float) -> torch.Tensor:
        """Take a step with all ranks; return the scores of this rank's rows before it."""
        with self._session.phase("compute"):
            computed = self._compiled.step(Batch.filled(rows, targets, self._share), rate)
        return torch.tensor(computed[: len(rows)])

    def end(self) -> None:
        """Copy the weights to PyTorch's tensor."""
        self._weights.copy_(torch.tensor(self._compiled.state().parameters[_WEIGHTS]))

    def state_dict(self) -> dict[str, Any]:
        self.end()
        return {_WEIGHTS: self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the weights; ``begin`` then copies them to the framework."""
        self._weights.copy_(state[_WEIGHTS])
