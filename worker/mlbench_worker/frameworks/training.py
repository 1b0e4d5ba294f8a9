"""Training in a framework, recorded as PyTorch's is: of image classifiers, and of linear models.

Data order, initial weights, schedule, scores, checkpoints, and what the ranks agree on beside their
gradients, come from the very code that trains with PyTorch, so the process joins its group too.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.task_options import Framework
from mlbench.benchmarks.tasks import Cifar10Options, DigitsOptions
from mlbench_worker import frameworks
from mlbench_worker.data.images import Images
from mlbench_worker.frameworks.compiled import Batch, Compiled, Sgd, State
from mlbench_worker.frameworks.models import Forward, Loss, Model, of_module, scores
from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.checkpoint import Stateful
from mlbench_worker.training.exchange.base import Exchange, average
from mlbench_worker.training.images import ImageScore, ImageTrainer
from mlbench_worker.training.schedules import Schedule
from mlbench_worker.training.session import Session
from mlbench_worker.training.trainer import Outcome, state_of

_WEIGHTS = "weights"


def make_trainer(
    session: Session,
    config: DigitsOptions | Cifar10Options,
    model: nn.Module,
    forward: Forward,
    schedule: Schedule,
    train: Images,
    batch_size: int,
) -> ImageTrainer:
    """Return what trains a model by SGD with momentum, with PyTorch or the framework wanted.

    ``forward`` is the model's forward pass for frameworks, ``train`` has the images to train on,
    ``batch_size`` counts those of all ranks in a step.
    """
    if config.framework != "torch":
        return CompiledTrainer(session, config, model, forward, schedule, train, batch_size)
    model = session.execution.place(model)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        fused=True,
    )
    return ImageTrainer(session, model, optimizer, schedule, exchange=config)


class CompiledTrainer(ImageTrainer):
    """Trains by steps that are one program of the framework each.

    Nothing can tell from outside what a program is at, so all its time is of the phase "compute".
    Compiling it is no training time.
    """

    def __init__(
        self,
        session: Session,
        config: DigitsOptions | Cifar10Options,
        model: nn.Module,
        forward: Forward,
        schedule: Schedule,
        train: Images,
        batch_size: int,
    ) -> None:
        """Join the other ranks, and compile the step."""
        self.session, self.model, self.schedule = session, model, schedule
        self._share = math.ceil(batch_size / session.world.size)
        begun = of_module(model, forward)
        sgd = Sgd(batch_size, config.momentum, config.weight_decay)
        example = self._batch(self.place(train.take(slice(1))))
        self._compiled = _compile(session, config.framework, begun, sgd, example)
        seconds = session.tracker.phase_seconds()["compile"]
        print(f"{config.framework}: compiled in {seconds:.1f} s", flush=True)
        self.exchange = _Compiled(model, session.world, self._compiled)

    @property
    def parts(self) -> dict[str, Stateful]:
        """The state that a checkpoint holds."""
        return {"exchange": self.exchange, **state_of(self.schedule)}

    def place(self, batch: Images) -> Images:
        """Return a batch as frameworks take it on CPUs: ``[n, height, width, channels]``."""
        return replace(batch, images=batch.images.permute(0, 2, 3, 1).contiguous())

    def step(self, batch: Images, batch_size: int) -> tuple[Outcome[ImageScore], float]:
        """Take a step with all ranks."""
        rate = self.rate(batch)
        with self.session.phase("compute"):
            scores = self._compiled.step(self._batch(batch), rate)
        self.exchange.after_step()
        return _outcome(scores, batch), rate

    def compute(self, model: nn.Module, batch: Images) -> Outcome[ImageScore]:
        """Return what the compiled model makes of a batch, to validate it."""
        return _outcome(self._compiled.scores(batch.images.numpy()), batch)

    def _batch(self, placed: Images) -> Batch:
        """Return this rank's share of a batch, filled up to the largest of all ranks."""
        return Batch.filled(placed.images, placed.labels, self._share)


class _Compiled(Exchange):
    """What is in the compiled step: one sum of all gradients over the ranks."""

    def __init__(self, model: nn.Module, world: World, compiled: Compiled) -> None:
        super().__init__(model, world)
        self._compiled = compiled
        self._bytes = sum(parameter.nbytes for parameter in model.parameters())

    def after_step(self) -> None:
        """Count what the step has sent."""
        self.count_sum(self._bytes)

    def averaged(self, model: nn.Module) -> nn.Module:
        """Average the running statistics of batch norm, which each rank gathers by itself."""
        state, world = self._compiled.state(), self.world
        if world.size > 1 and state.buffers:
            buffers = {name: torch.tensor(one) for name, one in state.buffers.items()}
            average(buffers.values(), world)
            means = {name: one.numpy() for name, one in buffers.items()}
            self._compiled.load(replace(state, buffers=means))
        return model

    def state_dict(self) -> dict[str, Any]:
        """Return all that training changes, as tensors."""
        return super().state_dict() | {
            kind: {name: torch.tensor(one) for name, one in values.items()}
            for kind, values in vars(self._compiled.state()).items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        kinds = (state[kind] for kind in ("parameters", "velocities", "buffers"))
        arrays = ({name: one.numpy() for name, one in kind.items()} for kind in kinds)
        self._compiled.load(State(*arrays))


def _compile(
    session: Session, framework: Framework, begun: Model, sgd: Sgd, example: Batch
) -> Compiled:
    """Join the other ranks, and compile the step for batches of the example's shape."""
    compile_ = frameworks.load(framework).compiled
    with session.tracker.phase("compile"):
        compiled = compile_(begun, sgd, session.world, example)
    session.at_exit.append(compiled.leave)
    return compiled


def _outcome(scores: np.ndarray, batch: Images) -> Outcome[ImageScore]:
    """Return the loss and score of a batch; rows of ``scores`` beyond its length are padding."""
    logits = torch.tensor(scores[: len(batch)])
    loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
    return Outcome(loss, lambda: ImageScore.of(logits, batch.labels, loss))


class LinearSteps:
    """Takes the steps of a model of one matrix or vector of weights, with an L2 penalty.

    Between the epochs, PyTorch's tensor has the weights. A checkpoint holds them.
    """

    def __init__(
        self, session: Session, framework: Framework, weights: torch.Tensor, loss: Loss, sgd: Sgd
    ) -> None:
        """Join the other ranks, and compile the step."""
        self._session = session
        self._weights = weights
        self._share = math.ceil(sgd.batch_size / session.world.size)
        begun = Model(scores, loss, {_WEIGHTS: weights.numpy().copy()}, {})
        # Of classes that have weights each, targets are numbers.
        target = torch.zeros(1, dtype=torch.int64 if weights.ndim > 1 else torch.float32)
        example = Batch.filled(torch.zeros(1, len(weights)), target, self._share)
        self._compiled = _compile(session, framework, begun, sgd, example)

    def begin(self) -> None:
        """Take the weights over, which a checkpoint may have replaced."""
        zeros = {_WEIGHTS: np.zeros(self._weights.shape, np.float32)}
        self._compiled.load(State({_WEIGHTS: self._weights.numpy().copy()}, zeros, {}))

    def step(self, rows: torch.Tensor, targets: torch.Tensor, rate: float) -> torch.Tensor:
        """Take a step with all ranks; return the scores of this rank's rows before it."""
        with self._session.phase("compute"):
            computed = self._compiled.step(Batch.filled(rows, targets, self._share), rate)
        return torch.tensor(computed[: len(rows)])

    def end(self) -> None:
        """Hand the weights back."""
        self._weights.copy_(torch.tensor(self._compiled.state().parameters[_WEIGHTS]))

    def state_dict(self) -> dict[str, Any]:
        """Return the weights."""
        self.end()
        return {_WEIGHTS: self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, once the next epoch begins."""
        self._weights.copy_(state[_WEIGHTS])
