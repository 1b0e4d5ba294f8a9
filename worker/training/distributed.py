"""The ranks of a run: join them as the environment says, and combine tensors over them."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from mlbench import MLBenchError
from worker.training.options import Options

Backend = Literal["gloo", "nccl", "mpi"]

_CPU = torch.device("cpu")

# PyTorch waits 30 minutes. A step takes seconds at most, so a peer this late will not come.
TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True)
class BackendOptions(Options):
    """How the ranks talk to each other."""

    backend: Backend = "gloo"
    """What carries the communication: gloo (CPU), nccl (GPU), or mpi, where PyTorch has it."""


class WorldError(MLBenchError):
    """The ranks could not be joined, or one of them was lost."""


@dataclass(frozen=True)
class World:
    """All ranks of a run, as one of them sees them."""

    rank: int = 0
    size: int = 1
    device: torch.device = _CPU
    """Where a tensor must lie for the ranks to combine it: nccl has them on GPUs alone."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"

    def shard(self, total: int) -> slice:
        """Return this rank's part of ``total`` items: parts differ in length by one at most."""
        return slice(total * self.rank // self.size, total * (self.rank + 1) // self.size)

    def sum_(self, tensor: torch.Tensor) -> None:
        """Replace ``tensor`` by its sum over all ranks, the same to the last bit on each.

        Raises:
            WorldError: a peer has gone, or did not answer in time.
        """
        if self.size > 1:
            with self.noticing_lost_peers():
                dist.all_reduce(tensor)

    def broadcast_(self, tensor: torch.Tensor, source: int = 0) -> None:
        """Replace ``tensor`` by that of the rank ``source``.

        Raises:
            WorldError: a peer has gone, or did not answer in time.
        """
        if self.size > 1:
            with self.noticing_lost_peers():
                dist.broadcast(tensor, src=source)

    @contextmanager
    def noticing_lost_peers(self) -> Iterator[None]:
        """Turn what PyTorch raises for a failed communication into a WorldError."""
        try:
            yield
        except RuntimeError as error:
            # A backend's own errors have a class of their own, gloo's the plain one.
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                raise WorldError(f"{self} lost a peer: {error}") from error
            raise


@contextmanager
def join_world(
    backend: Backend = "gloo",
    environ: Mapping[str, str] = os.environ,
    timeout: timedelta = TIMEOUT,
) -> Iterator[World]:
    """Join the ranks that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name, and leave at the end.

    With nothing set, or a world of one, there is nobody to talk to, and no process group is made.

    Raises:
        WorldError: the environment makes no sense, this PyTorch or machine has no such backend, or
            a peer did not come within ``timeout``.
    """
    world = _world(environ)
    _check_backend(backend)
    if backend == "nccl":
        world = replace(world, device=gpu_of(world))
    if world.size == 1:
        yield world
        return
    try:
        _join(backend, environ, world, timeout)
    except (OSError, RuntimeError, ValueError) as error:
        raise WorldError(f"{world} could not join its peers: {error}") from error
    try:
        yield world
    finally:
        dist.destroy_process_group()


def _world(environ: Mapping[str, str]) -> World:
    try:
        world = World(int(environ.get("RANK", "0")), int(environ.get("WORLD_SIZE", "1")))
    except ValueError as error:
        raise WorldError(f"RANK and WORLD_SIZE must be whole numbers: {error}") from error
    if not 0 <= world.rank < world.size:
        raise WorldError(f"RANK {world.rank} is not within WORLD_SIZE {world.size}")
    missing = {"MASTER_ADDR", "MASTER_PORT"} - set(environ)
    if world.size > 1 and missing:
        raise WorldError(f"{' and '.join(sorted(missing))} must be set for {world.size} ranks")
    return world


def _check_backend(backend: Backend) -> None:
    if backend == "mpi" and not dist.is_mpi_available():
        raise WorldError(
            "backend mpi: this build of PyTorch has no MPI (it has to be built from source for "
            "that); use gloo, or nccl on GPUs"
        )
    if backend == "nccl" and not (dist.is_nccl_available() and torch.cuda.is_available()):
        raise WorldError(
            "backend nccl: it needs NVIDIA GPUs and a build of PyTorch for CUDA, and here is "
            "no such; use gloo"
        )


def _join(backend: Backend, environ: Mapping[str, str], world: World, timeout: timedelta) -> None:
    if backend == "mpi":
        dist.init_process_group("mpi")
        if (dist.get_rank(), dist.get_world_size()) != (world.rank, world.size):
            dist.destroy_process_group()
            raise RuntimeError(f"MPI does not know it as {world}: start the ranks with mpirun")
        return
    if backend == "nccl":
        torch.cuda.set_device(world.device)
    dist.init_process_group(
        backend,
        store=_store(environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), world, timeout),
        rank=world.rank,
        world_size=world.size,
        timeout=timeout,
    )


def gpu_of(world: World) -> torch.device:
    """Return the GPU of a rank: those of ranks that share a machine are different, if they last."""
    return torch.device("cuda", world.rank % torch.cuda.device_count())


def _store(host: str, port: int, world: World, timeout: timedelta) -> Store:
    """Return the store through which the ranks find each other; rank 0 serves it."""
    listening = None
    if host in {"localhost", "127.0.0.1"}:
        # All ranks are on this machine. The store would listen to everyone who can reach it, and
        # gloo on the address of the host's name, which a VPN may have taken away.
        loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
        if world.rank == 0:
            listening = socket.create_server((host, port)).detach()
    store: Store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, world.size, world.rank == 0, timeout, master_listen_fd=listening
    )
    return store
