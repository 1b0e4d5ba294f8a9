"""Algorithms whose ranks train models of their own, and average them now and then."""

import copy

import torch
from torch import nn

from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.exchange.base import (
    Exchange,
    average_buffers,
    flatten_gradients,
    flatten_weights,
)


class OwnWeights(Exchange):
    """The base of algorithms whose ranks have different weights.

    What is evaluated is their mean, with the mean of batch norm's running statistics, in a model
    beside: the ranks' own go on as if there were no evaluation.
    """

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self.weights = flatten_weights(model)

    def averaged(self, model: nn.Module) -> nn.Module:
        """Return a copy of the model that has the mean weights of all ranks."""
        average_buffers(model, self.communicator.world)
        mean = copy.deepcopy(model)
        weights = flatten_weights(mean)
        self.communicator.world.mean_(weights)
        return mean

    def reset(self) -> None:
        """Give all ranks the mean weights."""
        self.communicator.world.mean_(self.weights)
        super().reset()


class LocalSGD(OwnWeights):
    """Local SGD: each rank trains alone for some steps, then all take the mean of their weights.

    Lin, Stich, Patel, Jaggi: Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020, algorithm 1;
    momentum stays each rank's own. Before the epoch in which the local steps begin, gradients are
    averaged in each step: this is post-local SGD (section 3), whose authors begin when the learning
    rate falls for the first time. Of d weights a rank sends 2 (n - 1) / n d values each time.
    """

    def __init__(self, model: nn.Module, world: World, steps: int, switch_epoch: int = 0) -> None:
        super().__init__(model, world)
        self._gradients = flatten_gradients(model)
        self._steps = steps
        self._switch_epoch = switch_epoch
        self._is_local = switch_epoch == 0
        self._done = torch.tensor(0)

    def begin_epoch(self, epoch: int) -> None:
        """Begin the local steps when it is time."""
        self._is_local = epoch >= self._switch_epoch

    def clear(self) -> None:
        """Set all gradients to zero, in place."""
        self._gradients.zero_()

    def after_backward(self) -> None:
        """Average the gradients, as long as the local steps have not begun."""
        if not self._is_local:
            self.communicator.average_(self._gradients)

    def after_step(self) -> None:
        """Average the weights after so many local steps."""
        if self._is_local:
            self._done += 1
            if self._done % self._steps == 0:
                self.communicator.average_(self.weights)

    def state(self) -> dict[str, torch.Tensor]:
        """Return how many local steps were done."""
        return {"done": self._done}
