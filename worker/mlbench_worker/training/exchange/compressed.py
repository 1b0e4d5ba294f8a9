"""Algorithms that send compressed gradients in every step, and average them.

Most of them remember the unsent part, and add it to the next gradients (error feedback). As in
algorithm 2 of Vogels, Karimireddy, Jaggi (PowerSGD, NeurIPS 2019), which compares them all, the
memory contains gradients, and learning rate and momentum are applied after it. The earlier papers
remember the learning rate times the gradient. Both are equal for a constant rate without momentum.
"""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import nn

from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.exchange.compressors import Compressor, Quantizer, count_of
from mlbench_worker.training.exchange.exchange_base import buffer_for
from mlbench_worker.training.exchange.synchronous import Flat


class ErrorFeedback(Flat, ABC):
    """The base of algorithms that remember the unsent part of the gradients."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self.unsent = torch.zeros_like(self.gradients)

    def after_backward(self) -> None:
        self.unsent.add_(self.gradients)
        self.send()

    @abstractmethod
    def send(self) -> None:
        """Send a part of ``unsent`` and subtract it; set ``gradients`` to the mean over ranks."""

    def state(self) -> dict[str, torch.Tensor]:
        return {"unsent": self.unsent}


class Compressed(ErrorFeedback):
    """Compresses the unsent gradients and sends them to all ranks by an all-gather.

    With signs, this is EF-SIGNSGD: Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD
    and other Gradient Compression Schemes, ICML 2019, algorithm 1. It works layer by layer, as in
    section 6 of that paper, so a rank sends (n - 1) (d / 8 + 4 layers) bytes.

    With the k values of the largest magnitude of the whole gradient, it is MEM-SGD: Stich,
    Cordonnier, Jaggi: Sparsified SGD with Memory, NeurIPS 2018, algorithm 1. It is parallel, as in
    section 4.4 of that paper, but synchronous, so a rank sends (n - 1) 8 k bytes.
    """

    def __init__(self, model: nn.Module, world: World, compressor: Compressor) -> None:
        super().__init__(model, world)
        self._compressor = compressor

    def send(self) -> None:
        self.unsent.sub_(_average(self, self._compressor, self._compressor.compress(self.unsent)))


class RandomK(ErrorFeedback):
    """Random-k with memory: k values at random places, the same on all ranks.

    Stich, Cordonnier, Jaggi 2018, as above. All ranks draw the same places, so places are not sent,
    and an all-reduce adds up the values: a rank sends 2 (n - 1) / n 4 k bytes.
    """

    def __init__(self, model: nn.Module, world: World, density: float, seed: int) -> None:
        super().__init__(model, world)
        self._count = count_of(len(self.unsent), density)
        self._seed = seed
        self._steps = torch.tensor(0)

    def send(self) -> None:
        size, device = len(self.unsent), self.unsent.device
        generator = np.random.default_rng((self._seed, int(self._steps)))
        drawn = generator.choice(size, self._count, replace=False, shuffle=False)
        places = torch.from_numpy(drawn).to(device)
        self._steps += 1
        values = self.unsent[places]
        self.unsent[places] = 0
        self.average_(values)
        self.gradients.zero_()
        self.gradients[places] = values

    def state(self) -> dict[str, torch.Tensor]:
        return super().state() | {"steps": self._steps}


class QSGD(Flat):
    """QSGD: each value is rounded at random to one of few levels, without bias.

    Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: Communication-Efficient SGD via Gradient
    Quantization and Encoding, NeurIPS 2017, section 3, in the form of its experiments: buckets of
    512 values, scaled by their largest; without its Elias code. The rounding is unbiased, so there
    is no memory. A rank sends (n - 1) (bits d / 8 + 4 d / 512) bytes.
    """

    def __init__(self, model: nn.Module, world: World, bits: int, seed: int) -> None:
        super().__init__(model, world)
        self._compressor = Quantizer(len(self.gradients), bits, bucket=512)
        self._seed = seed
        self._steps = torch.tensor(0)

    def after_backward(self) -> None:
        # Each rank has its own random numbers: the errors of the ranks average out.
        seed = (self._seed, int(self._steps), self.world.rank)
        self._steps += 1
        drawn = np.random.default_rng(seed).random(len(self.gradients), dtype=np.float32)
        chances = torch.from_numpy(drawn).to(self.gradients.device)
        _average(self, self._compressor, self._compressor.compress(self.gradients, chances))

    def state(self) -> dict[str, torch.Tensor]:
        return {"steps": self._steps}


class PowerSGD(ErrorFeedback):
    """PowerSGD: matrices of low rank, found by one step of power iteration, with memory.

    Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization, NeurIPS 2019, algorithms 1 and 2. A layer's gradient is a matrix M of n x m. With
    the Q (m x r) of the step before, P = M Q is averaged, and its columns are made orthonormal;
    then Q = M^T P is averaged, and P Q^T replaces the gradient. Parameters that would not become
    smaller, such as biases, are averaged uncompressed, in one message with all P. Each of k ranks
    sends 2 (k - 1) / k 4 r (n + m) bytes for each matrix. Algorithm 2 adds the momentum to the
    decompressed gradient; here the task's optimizer takes the step, with heavy-ball momentum.
    """

    def __init__(self, model: nn.Module, world: World, rank: int, seed: int) -> None:
        super().__init__(model, world)
        self._seed = seed
        self._unsent, self._unsent_rest = _matrices(self.unsent, model, rank)
        self._means, self._mean_rest = _matrices(self.gradients, model, rank)
        self._p_and_rest, places = buffer_for(
            [self.unsent.new_empty(len(matrix), rank) for matrix in self._unsent]
            + self._unsent_rest
        )
        self._p, self._rest = places[: len(self._unsent)], places[len(self._unsent) :]
        self._all_q, self._q = buffer_for(
            [self.unsent.new_empty(matrix.shape[1], rank) for matrix in self._unsent]
        )
        self.reset()

    def send(self) -> None:
        for matrix, p, q in zip(self._unsent, self._p, self._q, strict=True):
            torch.mm(matrix, q, out=p)
        for rest, place in zip(self._unsent_rest, self._rest, strict=True):
            place.copy_(rest)
            rest.zero_()
        self.average_(self._p_and_rest)
        for matrix, p, q in zip(self._unsent, self._p, self._q, strict=True):
            p.copy_(torch.linalg.qr(p).Q)
            torch.mm(matrix.T, p, out=q)
            matrix.addmm_(p, q.T, alpha=-1)
        self.average_(self._all_q)
        for mean, p, q in zip(self._means, self._p, self._q, strict=True):
            torch.mm(p, q.T, out=mean)
        for mean, place in zip(self._mean_rest, self._rest, strict=True):
            mean.copy_(place)

    def state(self) -> dict[str, torch.Tensor]:
        return super().state() | {"q": self._all_q}

    def reset(self) -> None:
        """Draw random Q, the same on all ranks."""
        super().reset()
        generator = np.random.default_rng(self._seed)
        start = generator.standard_normal(len(self._all_q), dtype=np.float32)
        self._all_q.copy_(torch.from_numpy(start))


def _average(
    exchange: Flat, compressor: Compressor | Quantizer, message: torch.Tensor
) -> torch.Tensor:
    """Set the gradients to the mean of all ranks' decompressed messages; return this rank's.

    All ranks add up in the same order, so that they get the same result to the last bit.
    """
    world = exchange.world
    messages = exchange.gather(message)
    exchange.gradients.zero_()
    for rank, received in enumerate(messages):
        sent = compressor.decompress(received)
        exchange.gradients.add_(sent)
        if rank == world.rank:
            own = sent
    exchange.gradients.div_(world.size)
    return own


def _matrices(
    buffer: torch.Tensor, model: nn.Module, rank: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Split a buffer into parts, one for each parameter: those worth compressing, and the others.

    A convolution is a matrix with a row for each output channel. A matrix is worth compressing if a
    product of matrices of that rank is smaller.
    """
    matrices: list[torch.Tensor] = []
    others: list[torch.Tensor] = []
    layers = list(model.parameters())
    for part, layer in zip(torch.split(buffer, [p.numel() for p in layers]), layers, strict=True):
        matrix = part.view(layer.shape[0] if layer.dim() else 1, -1)
        is_smaller = rank * sum(matrix.shape) < matrix.numel()
        (matrices if is_smaller else others).append(matrix)
    return matrices, others
