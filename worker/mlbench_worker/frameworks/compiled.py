"""What a framework makes of a model: a compiled training step over all ranks."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch

from mlbench_worker.frameworks.models import Model
from mlbench_worker.ranks.distributed import World

_LONGEST_ADDRESS = 64  # [IPv6]:port

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Batch:
    """A rank's share of a batch: as many rows on each rank, in each step."""

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    """1 for each row; 0 for those that fill up a share that is smaller than another rank's."""

    @classmethod
    def filled(cls, inputs: torch.Tensor, targets: torch.Tensor, share: int) -> Self:
        """Return a batch of ``share`` rows, zeros behind those that are given."""
        filling = (0, share - len(inputs))
        kind = np.float32 if targets.is_floating_point() else np.int32
        return cls(
            np.pad(inputs.numpy(), (filling, *[(0, 0)] * (inputs.ndim - 1))),
            np.pad(targets.numpy().astype(kind), (filling,)),
            np.pad(np.ones(len(inputs), np.float32), (filling,)),
        )


@dataclass(frozen=True)
class Sgd:
    """SGD as PyTorch has it: a step along ``v = momentum * v + gradient + weight_decay * w``.

    The gradient is the sum over the rows of all ranks, divided by ``batch_size``.
    """

    batch_size: int
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class State:
    """All that training changes, as it is on this rank."""

    parameters: Values
    velocities: Values
    buffers: Values

    @classmethod
    def begin(cls, model: Model) -> Self:
        """Return the state before the first step."""
        zeros = {name: np.zeros_like(one) for name, one in model.parameters.items()}
        return cls(dict(model.parameters), zeros, dict(model.buffers))


class Compiled(Protocol):
    """A model in training, compiled for batches of one shape."""

    def step(self, batch: Batch, rate: float) -> np.ndarray:
        """Take a step with all ranks; return this rank's scores as they were before it.

        Raises:
            WorldError: a peer is gone.
        """

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return the scores of rows to validate, on this rank alone."""

    def state(self) -> State:
        """Return the state."""

    def load(self, state: State) -> None:
        """Replace the state."""

    def leave(self) -> None:
        """Leave the other ranks, when all have ended well."""


def exchange_addresses(world: World) -> list[str]:
    """Return a ``host:port`` of each rank, which is free, and the same list on all ranks.

    The host is what a rank has towards rank 0.
    """
    at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    family, *_ = socket.getaddrinfo(*at, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as towards:
        towards.connect(at)  # sends nothing
        host = towards.getsockname()[0]
    # Held until all have told theirs: no two get the same.
    with socket.create_server((host, 0), family=family) as holder:
        port = holder.getsockname()[1]
        own = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        padded = torch.tensor(list(own.ljust(_LONGEST_ADDRESS).encode()), dtype=torch.uint8)
        of_ranks = world.gather(padded)
    return [bytes(address.tolist()).decode().rstrip() for address in of_ranks]


Compile = Callable[[Model, Sgd, World, Batch], Compiled]
"""Joins the other ranks, and compiles the step for batches of an example's shape."""
