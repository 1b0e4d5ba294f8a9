"""Steps of a linear model in a framework, whose weights PyTorch's tensor has between the epochs."""

import math

import numpy as np
import torch

from mlbench.options import Framework
from mlbench_worker import frameworks
from mlbench_worker.frameworks.compiled import Batch, Sgd, State
from mlbench_worker.frameworks.models import Loss, Model, scores
from mlbench_worker.training.session import Session

_WEIGHTS = "weights"


class LinearSteps:
    """Takes the steps of a model of one matrix or vector of weights, with an L2 penalty."""

    def __init__(
        self,
        session: Session,
        framework: Framework,
        weights: torch.Tensor,
        loss: Loss,
        sgd: Sgd,
    ) -> None:
        """Join the other ranks, and compile the step."""
        self._session = session
        self._weights = weights
        self._share = math.ceil(sgd.batch_size / session.world.size)
        begun = Model(scores, loss, {_WEIGHTS: weights.numpy().copy()}, {})
        # Of classes that have weights each, targets are numbers.
        target = torch.zeros(1, dtype=torch.int64 if weights.ndim > 1 else torch.float32)
        example = Batch.filled(torch.zeros(1, len(weights)), target, self._share)
        self._compiled = frameworks.load(framework).compiled(begun, sgd, session.world, example)
        session.at_exit.append(self._compiled.leave)

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
