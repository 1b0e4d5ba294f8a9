"""The ranks of a run, and the device of each rank.

All functions that communicate raise a WorldError when a peer is gone or does not respond.
"""

import ctypes
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn

from mlbench import MLBenchError
from mlbench.benchmarks.task_options import Backend, DeviceOptions, ImageModelOptions, ModelOptions
from mlbench.contract import names

_PIECE = 32 * 1024
"""Number of values per message to a neighbour."""
_CPU = torch.device("cpu")
_LOST_PEER_SECONDS = 2.0
"""Time before a lost peer is reported, in which the peer's process ends: the first rank to end is
reported as the one that failed."""

T = TypeVar("T")


class WorldError(MLBenchError):
    """The ranks could not be joined, or one of them was lost."""


@dataclass(frozen=True)
class World:
    """This rank, and the number of all ranks of the run."""

    rank: int = 0
    size: int = 1
    device: torch.device = _CPU
    """Device of the tensors that the backend sends: a GPU with nccl."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"

    def shard(self, total: int) -> slice:
        """Return this rank's part of ``total`` items. Parts differ in length by at most one."""
        return slice(total * self.rank // self.size, total * (self.rank + 1) // self.size)

    def sum_(self, tensor: torch.Tensor) -> None:
        """Replace ``tensor`` by its sum over all ranks, the same to the last bit on each."""
        if self.size > 1:
            with self.noticing_lost_peers():
                dist.all_reduce(tensor)

    def mean_(self, tensor: torch.Tensor) -> None:
        """Replace ``tensor`` by its mean over all ranks, the same to the last bit on each."""
        self.sum_(tensor)
        tensor.div_(self.size)

    def total(self, value: float) -> float:
        """Return the sum of the ranks' values, the same on each."""
        total = torch.tensor(value, dtype=torch.float64, device=self.device)
        self.sum_(total)
        return total.item()

    def broadcast_(self, tensor: torch.Tensor, source: int = 0) -> None:
        """Replace ``tensor`` by the tensor of the rank ``source``."""
        if self.size > 1:
            with self.noticing_lost_peers():
                dist.broadcast(tensor, src=source)

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all ranks, which have the same shape, in order of ranks."""
        if self.size == 1:
            return [tensor]
        own = tensor.to(self.device)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        with self.noticing_lost_peers():
            dist.all_gather(gathered, own)
        return [part.to(tensor.device) for part in gathered]

    def swap(self, tensor: torch.Tensor, peers: Sequence[int]) -> list[torch.Tensor]:
        """Send ``tensor`` to each of the peers, and return the tensor that each of them sends.

        Messages are cut into pieces, sent and received in turn: with gloo a large message would
        wait for the one in the other direction.
        """
        own = tensor.to(self.device)
        received = [torch.empty_like(own) for _ in peers]
        pieces = torch.split(own, _PIECE)
        messages = [
            message
            for peer, buffer in zip(peers, received, strict=True)
            for out, into in zip(pieces, torch.split(buffer, _PIECE), strict=True)
            for message in (dist.P2POp(dist.isend, out, peer), dist.P2POp(dist.irecv, into, peer))
        ]
        with self.noticing_lost_peers():
            for work in dist.batch_isend_irecv(messages):
                work.wait()
        return [buffer.to(tensor.device) for buffer in received]

    def prepare(self, work: Callable[[], T]) -> T:
        """Return the result of ``work`` once it has finished on all ranks.

        It may take longer than the ranks' timeout, so it runs in a thread while the ranks keep
        communicating.
        """
        if self.size == 1:
            return work()
        result: Future[T] = Future()

        def run() -> None:
            try:
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        while True:
            unfinished = not result.done()
            if not unfinished and result.exception():
                return result.result()
            if not self.total(unfinished):
                return result.result()
            time.sleep(0.2)

    @contextmanager
    def noticing_lost_peers(self) -> Iterator[None]:
        """Raise a WorldError for a failed communication, after ``_LOST_PEER_SECONDS``."""
        try:
            yield
        except RuntimeError as error:
            # gloo raises plain RuntimeErrors, other backends a DistError.
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                time.sleep(_LOST_PEER_SECONDS)
                raise WorldError(f"{self} lost a peer: {error}") from error
            raise


@contextmanager
def join_world(
    backend: Backend = "gloo",
    environ: Mapping[str, str] = os.environ,
    timeout: timedelta = timedelta(seconds=60),
) -> Iterator[World]:
    """Join the ranks given by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and leave at the end.

    A single rank, or a process without these variables, joins no process group. The timeout is
    shorter than PyTorch's 30 minutes, because a step takes seconds at most.

    Raises:
        WorldError: a variable is wrong, the backend is not available, or a peer did not join
            within ``timeout``.
    """
    world = _world(environ)
    if backend == "mpi" and not dist.is_mpi_available():
        raise WorldError(
            "backend mpi: this build of PyTorch has no MPI (it has to be built from source for "
            "that); use gloo, or nccl on GPUs"
        )
    if backend == "nccl":
        if not (dist.is_nccl_available() and torch.cuda.is_available()):
            raise WorldError(
                "backend nccl: it needs NVIDIA GPUs and a build of PyTorch for CUDA, and there is "
                "none here; use gloo"
            )
        world = replace(world, device=_gpu_of(world))
    if world.size == 1:
        yield world
        return
    # Tasks time their own exchange, however they are started.
    os.environ[names.ENV_TIME_COMMUNICATION] = "0"
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


def _join(backend: Backend, environ: Mapping[str, str], world: World, timeout: timedelta) -> None:
    if backend == "mpi":
        dist.init_process_group("mpi")
        if (dist.get_rank(), dist.get_world_size()) != (world.rank, world.size):
            dist.destroy_process_group()
            raise RuntimeError(f"MPI does not know it as {world}: start the ranks with mpirun")
        return
    if backend == "nccl":
        torch.cuda.set_device(world.device)
    host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    listening = None
    if host in {"localhost", "127.0.0.1"}:
        # All ranks are on this machine. By default the store listens on every interface, and gloo
        # on the address of the host's name, which a VPN may have removed.
        loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
        if world.rank == 0:
            listening = socket.create_server((host, port)).detach()
    rank, size = world.rank, world.size
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, size, rank == 0, timeout, master_listen_fd=listening
    )
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _gpu_of(world: World) -> torch.device:
    """Return a rank's GPU. Ranks on one machine share GPUs only if there are too few."""
    return torch.device("cuda", world.rank % torch.cuda.device_count())


class DeviceError(MLBenchError):
    """This machine does not support the requested device, precision or compilation."""


@dataclass(frozen=True)
class Execution:
    """The device and precision with which this rank computes. Made by ``set_up``."""

    device: torch.device
    options: ModelOptions

    def place(self, model: nn.Module) -> nn.Module:
        """Move a model onto the device, in the memory format."""
        return model.to(self.device, memory_format=self._format)  # type: ignore[call-overload,no-any-return]

    def images(self, images: torch.Tensor) -> torch.Tensor:
        """Return images ``[n, channels, height, width]`` on the device, in the memory format."""
        return images.to(device=self.device, memory_format=self._format, non_blocking=True)

    def autocast(self) -> AbstractContextManager[object]:
        """Return a context that computes the forward pass in the chosen precision."""
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.options.precision)
        return torch.autocast(self.device.type, dtype, enabled=dtype is not None)

    def compiled(self, model: nn.Module) -> nn.Module:
        """Return the model, compiled by torch.compile if the options say so."""
        return torch.compile(model) if self.options.compile else model  # type: ignore[return-value]

    def make_scaler(self) -> torch.amp.GradScaler:
        """Return the scaler that keeps small fp16 gradients from vanishing; disabled otherwise."""
        return torch.amp.GradScaler(self.device.type, enabled=self.options.precision == "fp16")

    def synchronize(self) -> None:
        """Wait until the device has finished all its work, so that times are measured correctly."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def describe(self) -> dict[str, str | int]:
        """Return the device, the number of threads and PyTorch's version and BLAS, to record."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
        return {
            "device": self.device.type,
            "device_name": name,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "blas": blas[1] if blas else "none",
        }

    @property
    def _format(self) -> torch.memory_format:
        options = self.options
        last = isinstance(options, ImageModelOptions) and options.channels_last
        return torch.channels_last if last else torch.contiguous_format


def set_up(options: DeviceOptions, world: World) -> Execution:
    """Set up this process to compute with the given options.

    Raises:
        DeviceError: the device is not available, or does not support the options.
    """
    model = options if isinstance(options, ModelOptions) else ModelOptions(device=options.device)
    if model.device == "cpu" or (model.device == "auto" and not torch.cuda.is_available()):
        device = _CPU
    elif torch.cuda.is_available():
        device = _gpu_of(world)
    else:
        raise DeviceError("device cuda: this PyTorch finds no usable GPU; use cpu")
    if device.type == "cpu" and model.precision in ("tf32", "fp16"):
        raise DeviceError(
            f"precision {model.precision}: only GPUs have it; on a CPU use fp32 or bf16"
        )
    compiler = os.environ.get("CXX", "g++")  # the default of torch.compile on CPUs
    if model.compile and device.type == "cpu" and not shutil.which(compiler):
        raise DeviceError(f"compile needs a C++ compiler, but {compiler} is not on the path")
    # A step allocates the same large tensors as the step before. By default glibc unmaps a freed
    # tensor, so the kernel has to zero every page again. That takes up to half the time of a
    # ResNet-20 step on two cores. Other C libraries are left alone.
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mmap_max, trim_threshold, never = -4, -1, 2**31 - 1  # see malloc.h
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, never)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        # PyTorch's default is tf32 for convolutions, but a run with fp32 must compute in fp32.
        products = "tf32" if model.precision == "tf32" else "ieee"
        torch.backends.cudnn.conv.fp32_precision = products  # type: ignore[attr-defined]
        torch.backends.cuda.matmul.fp32_precision = products
    return Execution(device, model)
