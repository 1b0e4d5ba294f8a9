"""The interface of a framework: a training step over all ranks, compiled into one program."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch

from mlbench_frameworks.models import Model
from mlbench_worker.ranks.distributed import World

Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Batch:
    """A rank's share of a batch, padded to the same number of rows on each rank, in each step."""

    inputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    """1 for each row, 0 for padding."""

    @classmethod
    def filled(cls, inputs: torch.Tensor, targets: torch.Tensor, share: int) -> Self:
        """Return a batch of the given rows, padded with zeros to ``share`` rows."""
        filling = (0, share - len(inputs))
        kind = np.float32 if targets.is_floating_point() else np.int32
        return cls(
            np.pad(inputs.numpy(), (filling, *[(0, 0)] * (inputs.ndim - 1))),
            np.pad(targets.numpy().astype(kind), (filling,)),
            np.pad(np.ones(len(inputs), np.float32), (filling,)),
        )


@dataclass(frozen=True)
class Sgd:
    """SGD as defined by PyTorch: a step along ``v = momentum * v + gradient + weight_decay * w``.

    The gradient is the sum over the rows of all ranks, divided by ``batch_size``.
    """

    batch_size: int
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class State:
    """The state of the training on this rank."""

    parameters: Values
    velocities: Values
    buffers: Values

    @classmethod
    def begin(cls, model: Model) -> Self:
        """Return the state before the first step."""
        zeros = {name: np.zeros_like(values) for name, values in model.parameters.items()}
        return cls(dict(model.parameters), zeros, dict(model.buffers))


class Compiled(Protocol):
    """A model in training, compiled for batches of one shape."""

    def step(self, batch: Batch, rate: float) -> np.ndarray:
        """Take a step with all ranks; return this rank's scores before the step.

        Raises:
            WorldError: a peer is gone.
        """

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """Return the scores of validation rows, computed by this rank alone."""

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...

    def leave(self) -> None:
        """Leave the other ranks, after all have succeeded."""


def exchange_addresses(world: World) -> list[str]:
    """Return a free ``host:port`` of each rank: the same list on all ranks.

    The host is the address of the interface by which a rank reaches rank 0.
    """
    master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    family, *_ = socket.getaddrinfo(*master, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(master)  # sends nothing
        host = probe.getsockname()[0]
    # The port stays bound until all ranks have chosen theirs, so that no two are the same.
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        padded = torch.tensor(list(address.ljust(64).encode()), dtype=torch.uint8)
        addresses = world.gather(padded)
    return [bytes(padded.tolist()).decode().rstrip() for padded in addresses]


Compile = Callable[[Model, Sgd, World, Batch], Compiled]
"""Joins the other ranks, and compiles the step for batches of the example's shape."""
