"""Algorithms whose ranks train different models, and average them periodically or by gossip.

In both gossip graphs all ranks have equally many neighbours. The mixing matrix W gives a rank and
each of its neighbours the same weight, 1 / (neighbours + 1). As the papers require, W is symmetric,
and its rows and columns sum to one.
"""

import copy

import torch
from torch import nn

from mlbench.benchmarks.task_options import Topology
from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.exchange.compressors import Compressor
from mlbench_worker.training.exchange.exchange_base import (
    Exchange,
    average_buffers,
    flatten_gradients,
    flatten_weights,
)


class OwnWeights(Exchange):
    """The base of algorithms whose ranks have different weights.

    Evaluation uses a copy of the model with the mean weights, and the mean of batch norm's running
    statistics. It does not change the weights of the ranks.
    """

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self.weights = flatten_weights(model)

    def averaged(self, model: nn.Module) -> nn.Module:
        average_buffers(model, self.world)
        mean = copy.deepcopy(model)
        weights = flatten_weights(mean)
        self.world.mean_(weights)
        return mean

    def reset(self) -> None:
        """Give all ranks the mean weights."""
        self.world.mean_(self.weights)
        super().reset()


class LocalSGD(OwnWeights):
    """Local SGD: each rank trains alone for some steps, then all take the mean of their weights.

    Lin, Stich, Patel, Jaggi: Don't Use Large Mini-Batches, Use Local SGD, ICLR 2020, algorithm 1.
    The momentum is not averaged. Before ``switch_epoch``, gradients are averaged in each step: this
    is post-local SGD (section 3), whose authors switch when the learning rate falls for the first
    time. For d weights a rank sends 2 (n - 1) / n d values per average.
    """

    def __init__(self, model: nn.Module, world: World, steps: int, switch_epoch: int = 0) -> None:
        super().__init__(model, world)
        self._gradients = flatten_gradients(model)
        self._steps = steps
        self._switch_epoch = switch_epoch
        self._is_local = switch_epoch == 0
        self._done = torch.tensor(0)

    def begin_epoch(self, epoch: int) -> None:
        self._is_local = epoch >= self._switch_epoch

    def clear(self) -> None:
        self._gradients.zero_()

    def after_backward(self) -> None:
        if not self._is_local:
            self.average_(self._gradients)

    def after_step(self) -> None:
        if self._is_local:
            self._done += 1
            if self._done % self._steps == 0:
                self.average_(self.weights)

    def state(self) -> dict[str, torch.Tensor]:
        return {"done": self._done}


def neighbours(world: World, topology: Topology) -> list[int]:
    """Return the neighbours of this rank, in a ring or in the complete graph."""
    if topology == "complete":
        return [rank for rank in range(world.size) if rank != world.rank]
    return sorted({(world.rank + side) % world.size for side in (-1, 1)})


class Decentralized(OwnWeights):
    """D-PSGD: a rank takes the mean of its and its neighbours' weights, then its own gradient step.

    Lian, Zhang, Zhang, Hsieh, Zhang, Liu: Can Decentralized Algorithms Outperform Centralized
    Algorithms?, NeurIPS 2017, algorithm 1. The gradient is computed with the weights before they
    are mixed. A rank sends all its weights to each neighbour. In the complete graph, all ranks take
    the same mean, so an all-reduce is used.
    """

    def __init__(self, model: nn.Module, world: World, topology: Topology) -> None:
        super().__init__(model, world)
        self._is_complete = topology == "complete"
        self._neighbours = neighbours(world, topology)

    def after_backward(self) -> None:
        """Mix the weights. The optimizer then applies the gradient, computed before."""
        if self._is_complete:
            self.average_(self.weights)
            return
        for weights in self.swap(self.weights, self._neighbours):
            self.weights.add_(weights)
        self.weights.div_(len(self._neighbours) + 1)


class Choco(OwnWeights):
    """CHOCO-SGD: gossip of compressed differences to public copies of the weights.

    Koloskova, Stich, Jaggi: Decentralized Stochastic Optimization and Gossip Algorithms with
    Compressed Communication, ICML 2019, algorithm 2, with the memory of algorithm 6. After its own
    step to x_i, a rank sends q_i = Q(x_i - c_i) to its neighbours, which add it to their public
    copy c_i of its weights. It then takes a step towards their copies:
    x_i += gamma sum_j W_ij (c_j - c_i). A rank stores only c_i and the mixed copies
    sum_j W_ij c_j. The copies start with the common initial weights rather than zero, because all
    ranks know them. A rank sends its compressed weights to each neighbour.
    """

    def __init__(
        self,
        model: nn.Module,
        world: World,
        topology: Topology,
        compressor: Compressor,
        step: float,
    ) -> None:
        super().__init__(model, world)
        self._neighbours = neighbours(world, topology)
        self._compressor = compressor
        self._step = step
        self._copy = self.weights.clone()
        self._mixed = self.weights.clone()

    def after_step(self) -> None:
        """Send the compressed change of the weights, and step towards the neighbours' copies."""
        message = self._compressor.compress(self.weights - self._copy)
        received = self.swap(message, self._neighbours)
        own = self._compressor.decompress(message)
        self._copy.add_(own)
        for message in received:
            own.add_(self._compressor.decompress(message))
        self._mixed.add_(own, alpha=1 / (len(self._neighbours) + 1))
        self.weights.add_(self._mixed - self._copy, alpha=self._step)

    def state(self) -> dict[str, torch.Tensor]:
        return {"copy": self._copy, "mixed": self._mixed}

    def reset(self) -> None:
        """Give all ranks the mean weights, and reset the copies to them."""
        super().reset()
        self._copy.copy_(self.weights)
        self._mixed.copy_(self.weights)
