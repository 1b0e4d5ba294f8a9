"""The base class of exchange algorithms, which is also the exchange of a single rank."""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import nn

from mlbench_worker.ranks.distributed import World


class Exchange:
    """Keeps the models of all ranks together. This class is for a single rank.

    The order of calls in each step: ``clear``, forward through ``model``, backward,
    ``after_backward``, the optimizer's step, ``after_step``. An algorithm works on gradients in
    ``after_backward``, or on the weights in ``after_step``. The checkpoint of each rank contains
    that rank's ``state``.

    The bytes that a rank sends are counted by the usual algorithms, which gloo has too. Only the
    payload counts, without headers and retransmissions:

    - a sum over n ranks is a ring all-reduce (Patarasuk, Yuan 2009): 2 (n - 1) / n of the message;
    - a gather is a ring all-gather: n - 1 messages of one rank's size;
    - a message to a neighbour counts once.
    """

    def __init__(self, model: nn.Module, world: World) -> None:
        self.model = model
        """The module to call in the forward pass."""
        self.world = world
        self.bytes_sent = 0
        """Bytes sent since the start of the training."""
        self._bytes_before = 0

    def begin_epoch(self, epoch: int) -> None:
        """Note that an epoch begins; the first is 0."""

    def clear(self) -> None:
        self.model.zero_grad()

    def waited_seconds(self) -> float:
        """Return the seconds at the end of the backward pass spent only waiting for other ranks."""
        return 0.0

    def after_backward(self) -> None:
        """Exchange gradients, before the optimizer's step."""

    def after_step(self) -> None:
        """Exchange weights, after the optimizer's step."""

    def bytes_of_step(self) -> int:
        """Return the bytes that this rank has sent since the last call."""
        before, self._bytes_before = self._bytes_before, self.bytes_sent
        return self._bytes_before - before

    def average_(self, tensor: torch.Tensor) -> None:
        """Replace ``tensor`` by its mean over all ranks, the same to the last bit on each."""
        self.world.mean_(tensor)
        self.count_sum(tensor.nbytes)

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all ranks, which have the same shape, in order of ranks."""
        self.bytes_sent += (self.world.size - 1) * tensor.nbytes
        return self.world.gather(tensor)

    def swap(self, tensor: torch.Tensor, peers: Sequence[int]) -> list[torch.Tensor]:
        """Send ``tensor`` to each of the peers, and return the tensor that each of them sends."""
        self.bytes_sent += len(peers) * tensor.nbytes
        return self.world.swap(tensor, peers)

    def count_sum(self, size: int) -> None:
        """Count a message of ``size`` bytes that is summed over all ranks elsewhere."""
        self.bytes_sent += 2 * (self.world.size - 1) * size // self.world.size

    def averaged(self, model: nn.Module) -> nn.Module:
        """Return the model to evaluate, the same on all ranks; ``model`` is this rank's.

        The running statistics of batch norm become their mean over all ranks.
        """
        average_buffers(model, self.world)
        return model

    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that the algorithm carries from step to step, not copied."""
        return {}

    def reset(self) -> None:
        """Reset the algorithm to start from the current weights, on all ranks at once."""
        for tensor in self.state().values():
            tensor.zero_()

    def state_dict(self) -> dict[str, Any]:
        return {"rank": self.world.rank, "bytes_sent": self.bytes_sent, "state": self.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint, on all ranks at once, after model and optimizer.

        A rank that lost its checkpoint has another rank's. The states do not fit together then,
        so all ranks reset theirs.
        """
        self.bytes_sent = self._bytes_before = state["bytes_sent"]
        if self.world.total(state["rank"] != self.world.rank):
            self.reset()
            return
        for name, tensor in self.state().items():
            tensor.copy_(state["state"][name])


def average_buffers(model: nn.Module, world: World) -> None:
    """Average the running statistics of batch norm, which each rank computes on its own."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    if world.size > 1 and buffers:
        average(buffers, world)


def average(tensors: Collection[torch.Tensor], world: World) -> None:
    """Replace tensors by their means over all ranks, in one message."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    world.mean_(flat)
    for tensor, part in zip(tensors, split(flat, tensors), strict=True):
        tensor.copy_(part)


def flatten_weights(model: nn.Module) -> torch.Tensor:
    """Make all parameters views into one buffer, and return it."""
    parameters = list(model.parameters())
    buffer, parts = buffer_for(parameters)
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.data = part.copy_(parameter.data)
    return buffer


def flatten_gradients(model: nn.Module) -> torch.Tensor:
    """Make all gradients views into one buffer of zeros, and return it."""
    parameters = list(model.parameters())
    buffer, parts = buffer_for(parameters)
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part
    return buffer


def buffer_for(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return a flat buffer of zeros, and views into it of the tensors' shapes."""
    buffer = torch.zeros(sum(map(torch.numel, tensors)), device=tensors[0].device)
    return buffer, split(buffer, tensors)


def split(buffer: torch.Tensor, tensors: Collection[torch.Tensor]) -> list[torch.Tensor]:
    """Return views into a flat buffer, with the shapes and strides of the tensors."""
    parts = torch.split(buffer, [tensor.numel() for tensor in tensors])
    return [
        part.as_strided(tensor.shape, tensor.stride())
        for part, tensor in zip(parts, tensors, strict=True)
    ]
