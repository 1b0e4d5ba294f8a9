"""Synchronous gradient exchange: the ways to average gradients over all ranks, for comparison.

All of them compute the same mean; they differ in how often the ranks talk, and when:

- ``ddp``: PyTorch's DistributedDataParallel (Li et al. 2020) sends buckets of 25 MB as soon as the
  backward pass has filled them, so that it overlaps with the rest of that pass.
- ``flat``: all gradients lie in one buffer, which is sent once, after the backward pass.
- ``per-layer``: every parameter's gradient is sent by itself, after the backward pass.

With ``ddp`` the gradients may be rounded to fp16 or bf16 by PyTorch's own communication hooks. That
does change the result.
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
from mlbench_worker.training.exchange.base import Exchange, flatten_gradients


class Buckets(Exchange):
    """PyTorch's DistributedDataParallel, which has averaged when the backward pass has ended."""

    def __init__(self, model: nn.Module, world: World, compression: str) -> None:
        self._computed_at = 0.0
        self._parameters = list(model.parameters())
        self._order: list[int] = []
        for i, p in enumerate(self._parameters):
            p.register_post_accumulate_grad_hook(partial(self._note_gradient, i))  # type: ignore[no-untyped-call]
        ddp = DistributedDataParallel(
            model,
            # Statistics of batch norm are averaged before each evaluation, not copied at each step.
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
        """Count what DDP has sent in the backward pass."""
        self.count_sum(self._bytes)

    def waited_seconds(self) -> float:
        """Return the time since the last gradient. To be called right after the backward pass.

        On a GPU it is next to nothing: there the pass only queues the work.
        """
        return perf_counter() - self._computed_at

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint holds: also in which order the gradients come."""
        return {**super().state_dict(), "order": self._order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, with the buckets that DDP had then.

        It fills them in the order of its first backward pass, and three or more ranks add up in
        another order in other buckets. So gradients of nothing come first, in the same order.
        """
        super().load_state_dict(state)
        self._reducer.prepare_for_backward([])
        nothing = torch.stack([self._parameters[i].sum() for i in reversed(state["order"])]).sum()
        nothing.backward()  # type: ignore[no-untyped-call]

    def _note_gradient(self, index: int, _: torch.Tensor) -> None:
        self._computed_at = perf_counter()
        if len(self._order) < len(self._parameters):  # of the first backward pass
            self._order.append(index)


def _bf16_hook(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> Future[torch.Tensor]:
    """Call PyTorch's hook. DDP recognizes it by name and allows it for NCCL alone; gloo can too."""
    return default_hooks.bf16_compress_hook(group, bucket)


class Flat(Exchange):
    """All gradients are views into one buffer, so that one all-reduce takes no copying."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self.gradients = flatten_gradients(model)

    def clear(self) -> None:
        """Set all gradients to zero, in place."""
        self.gradients.zero_()

    def after_backward(self) -> None:
        """Average all gradients at once."""
        self.average_(self.gradients)


class PerLayer(Exchange):
    """Each parameter's gradient is averaged by itself, one after the other."""

    def __init__(self, model: nn.Module, world: World) -> None:
        super().__init__(model, world)
        self._parameters = list(model.parameters())

    def after_backward(self) -> None:
        """Average the gradients in the order of the parameters."""
        for parameter in self._parameters:
            assert parameter.grad is not None
            self.average_(parameter.grad)
