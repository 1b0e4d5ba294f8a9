"""Synchronous gradient exchange: the ways to average gradients over all ranks, for comparison.

All of them compute the same mean; they differ in how often the ranks talk, and when:

- ``ddp``: PyTorch's DistributedDataParallel (Li et al. 2020) sends buckets of 25 MB as soon as the
  backward pass has filled them, so that it overlaps with the rest of that pass.
- ``flat``: all gradients lie in one buffer, which is sent once, after the backward pass.
- ``per-layer``: every parameter's gradient is sent by itself, after the backward pass.

With ``ddp`` the gradients may be compressed by PyTorch's own communication hooks: rounded to fp16
or bf16, or approximated by matrices of rank 2 (PowerSGD, Vogels et al. 2019). That does change the
result.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from worker.training.distributed import World
from worker.training.options import Options

_ALL_IN_ONE = 1 << 20  # MiB


@dataclass(frozen=True)
class ExchangeOptions(Options):
    """How gradients are averaged over the ranks."""

    exchange: Literal["ddp", "flat", "per-layer"] = "ddp"
    """How the ranks average their gradients: in DDP's buckets, in one buffer, or layer by layer."""
    compression: Literal["none", "fp16", "bf16", "powersgd"] = "none"
    """How gradients are compressed on their way; needs --exchange ddp."""

    def _rules(self) -> dict[str, bool]:
        fits = self.compression == "none" or self.exchange == "ddp"
        return super()._rules() | {"--compression needs --exchange ddp": fits}


class Exchange:
    """Averages the gradients of a model over all ranks; this one is for a rank that is alone.

    In each step: ``clear``, then forward through ``model`` and backward, then ``average``.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        """What to call in the forward pass."""

    def clear(self) -> None:
        """Reset all gradients."""
        self.model.zero_grad()

    def average(self) -> None:
        """Make each gradient its mean over all ranks, the same to the last bit on each."""

    def waited_seconds(self) -> float:
        """Return the seconds at the end of the backward pass that only waited for other ranks."""
        return 0.0


class Buckets(Exchange):
    """PyTorch's DistributedDataParallel, which has averaged when the backward pass has ended."""

    def __init__(self, model: nn.Module, compression: str) -> None:
        self._computed_at = 0.0
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._note_gradient)  # type: ignore[no-untyped-call]
        ddp = DistributedDataParallel(
            model,
            # Statistics of batch norm are averaged before each evaluation, not copied at each step.
            forward_sync_buffers=False,
            gradient_as_bucket_view=True,
            # PowerSGD talks several times for each bucket. Of two buckets at a time, gloo would
            # mix up what belongs to which.
            bucket_cap_mb=_ALL_IN_ONE if compression == "powersgd" else None,
        )
        match compression:
            case "fp16":
                ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
            case "bf16":
                ddp.register_comm_hook(None, _bf16_hook)
            case "powersgd":
                # It needs DDP's final buckets, which stand after the first step.
                state = powerSGD_hook.PowerSGDState(
                    None, matrix_approximation_rank=2, start_powerSGD_iter=2
                )
                ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        super().__init__(ddp)

    def waited_seconds(self) -> float:
        """Return the time since the last gradient. To be called right after the backward pass.

        On a GPU it is next to nothing: there the pass only queues the work.
        """
        return perf_counter() - self._computed_at

    def _note_gradient(self, _: torch.Tensor) -> None:
        self._computed_at = perf_counter()


def _bf16_hook(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> Future[torch.Tensor]:
    """Call PyTorch's hook. DDP recognizes it by name and allows it for NCCL alone; gloo can too."""
    return default_hooks.bf16_compress_hook(group, bucket)


class Flat(Exchange):
    """All gradients are views into one buffer, so that one all-reduce takes no copying."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model)
        self._world = world
        parameters = list(model.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        self._buffer = torch.zeros(sum(sizes), device=parameters[0].device)
        for parameter, part in zip(parameters, torch.split(self._buffer, sizes), strict=True):
            # In the order in which the parameter lies in memory, as the optimizer wants it.
            parameter.grad = part.as_strided(parameter.shape, parameter.stride())

    def clear(self) -> None:
        """Set all gradients to zero, in place."""
        self._buffer.zero_()

    def average(self) -> None:
        """Average all gradients at once."""
        self._world.sum_(self._buffer)
        self._buffer.div_(self._world.size)


class PerLayer(Exchange):
    """Each parameter's gradient is averaged by itself, one after the other."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model)
        self._world = world
        self._parameters = list(model.parameters())

    def average(self) -> None:
        """Average the gradients in the order of the parameters."""
        for parameter in self._parameters:
            assert parameter.grad is not None
            self._world.sum_(parameter.grad)
            parameter.grad.div_(self._world.size)


def make_exchange(options: ExchangeOptions, model: nn.Module, world: World) -> Exchange:
    """Give all ranks the model of rank 0, and return how they exchange its gradients."""
    if world.size == 1:
        return Exchange(model)
    for parameter in model.parameters():
        world.broadcast_(parameter.detach())
    match options.exchange:
        case "flat":
            return Flat(model, world)
        case "per-layer":
            return PerLayer(model, world)
        case "ddp":
            with world.noticing_lost_peers():
                return Buckets(model, options.compression)


def average_buffers(model: nn.Module, world: World) -> None:
    """Average the running statistics of batch norm, which each rank gathers by itself."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    if world.size == 1 or not buffers:
        return
    flat = torch.cat([buffer.flatten() for buffer in buffers])
    world.sum_(flat)
    flat.div_(world.size)
    sizes = [buffer.numel() for buffer in buffers]
    for buffer, part in zip(buffers, torch.split(flat, sizes), strict=True):
        buffer.copy_(part.view_as(buffer))
