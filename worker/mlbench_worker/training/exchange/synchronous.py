"""Synchronous gradient exchange: three ways to average gradients over all ranks.

All of them compute the same mean. They differ in the number and time of the messages:

- ``ddp``: PyTorch's DistributedDataParallel (Li et al. 2020) sends buckets of 25 MB as soon as the
  backward pass has filled them, so that communication overlaps with the rest of that pass.
- ``flat``: all gradients are in one buffer, which is sent once, after the backward pass.
- ``per-layer``: the gradient of each parameter is sent separately, after the backward pass.

With ``ddp`` the gradients may be rounded to fp16 or bf16 by PyTorch's communication hooks. That
changes the result.
"""

from functools import partial
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from mlbench_worker.ranks.distributed import World
from mlbench_worker.training.exchange.exchange_base import Exchange, flatten_gradients


class Buckets(Exchange):
    """PyTorch's DistributedDataParallel, which averages during the backward pass."""

    def __init__(self, model: nn.Module, world: World, compression: str) -> None:
        self._computed_at = 0.0
        self._parameters = list(model.parameters())
        self._order: list[int] = []
        for i, p in enumerate(self._parameters):
            p.register_post_accumulate_grad_hook(partial(self._note_gradient, i))  # type: ignore[no-untyped-call]
        ddp = DistributedDataParallel(
            model,
            # Batch norm's statistics are averaged before each evaluation instead.
            forward_sync_buffers=False,
            gradient_as_bucket_view=True,
        )
        match compression:
            case "fp16":
                ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
            case "bf16":
                ddp.register_comm_hook(None, _bf16_hook)
        super().__init__(ddp, world)
        self._reducer = ddp.reducer
        values = sum(parameter.numel() for parameter in self._parameters)
        self._bytes = values * (4 if compression == "none" else 2)

    def after_backward(self) -> None:
        """Count the bytes that DDP has sent in the backward pass."""
        self.count_sum(self._bytes)

    def waited_seconds(self) -> float:
        """Return the seconds since the last gradient. Call it right after the backward pass.

        On a GPU the result is almost zero, because there the pass only queues the work.
        """
        return perf_counter() - self._computed_at

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "order": self._order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a checkpoint, with the same buckets as then.

        DDP assigns gradients to buckets in the order of its first backward pass. With three or
        more ranks, other buckets mean another order of additions, and so another rounding. A
        backward pass through a dummy loss therefore produces the gradients in the saved order.
        """
        super().load_state_dict(state)
        self._reducer.prepare_for_backward([])
        loss = torch.stack([self._parameters[i].sum() for i in reversed(state["order"])]).sum()
        loss.backward()  # type: ignore[no-untyped-call]

    def _note_gradient(self, index: int, _: torch.Tensor) -> None:
        self._computed_at = perf_counter()
        if len(self._order) < len(self._parameters):  # the first backward pass
            self._order.append(index)


def _bf16_hook(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> Future[torch.Tensor]:
    """Call PyTorch's hook. DDP would allow the hook itself with NCCL only; gloo supports it too."""
    return default_hooks.bf16_compress_hook(group, bucket)


class Flat(Exchange):
    """All gradients are views into one buffer, so that one all-reduce works without copies."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self.gradients = flatten_gradients(model)

    def clear(self) -> None:
        self.gradients.zero_()

    def after_backward(self) -> None:
        self.average_(self.gradients)


class PerLayer(Exchange):
    """The gradients are averaged one parameter after the other."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self._parameters = list(model.parameters())

    def after_backward(self) -> None:
        for parameter in self._parameters:
            assert parameter.grad is not None
            self.average_(parameter.grad)
