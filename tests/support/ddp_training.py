"""Plain DDP training without MLBench, with one rank that is delayed in a chosen way.

``python ddp_training.py WHERE LATE_RANK LATE_MS STEPS [WORK_MS]``. ``WHERE`` is ``data``,
``forward``, ``backward`` or ``reduce`` (without DistributedDataParallel). Each of the first three
parts of a step takes ``WORK_MS``. The script prints a digest of the parameters, and the duration
and CPU time of all steps but the first.
"""

import hashlib
import os
import sys
import time
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

_BATCH, _SIZE = 16, 32


class Late(torch.autograd.Function):
    """Passes values and gradients on after a delay."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, forward: float, backward: float) -> Tensor:
        ctx.seconds = backward
        time.sleep(forward)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor, None, None]:
        time.sleep(ctx.seconds)
        return gradients, None, None


class Model(nn.Module):
    """Two layers with a delay between them."""

    def __init__(self, forward: float, backward: float) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(_SIZE, 4 * _SIZE), nn.Linear(4 * _SIZE, 1)
        self.norm = nn.BatchNorm1d(4 * _SIZE)  # BatchNorm's buffers are broadcast
        self.late = forward, backward

    def forward(self, inputs: Tensor) -> Tensor:
        inner = self.inner(inputs)
        late: Tensor = Late.apply(inner, *self.late)  # type: ignore[no-untyped-call]
        outputs: Tensor = self.outer(self.norm(late).relu())
        return outputs


class Data(Dataset[Tensor]):
    """Random rows that are the same in each run."""

    def __init__(self, rows: int, seconds: float) -> None:
        generator = torch.Generator().manual_seed(distributed.get_rank())
        self._rows, self._seconds = torch.randn(rows, _SIZE, generator=generator), seconds

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Tensor:
        if index % _BATCH == 0:
            time.sleep(self._seconds)
        return self._rows[index]


def main(where: str, late_rank: str, late_ms: str, steps: str, work_ms: str = "2") -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    delays = dict.fromkeys(("data", "forward", "backward"), float(work_ms) / 1000)
    if distributed.get_rank() == int(late_rank):
        delays["forward" if where == "reduce" else where] += float(late_ms) / 1000
    model: nn.Module = Model(delays["forward"], delays["backward"])
    if where != "reduce":
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began: tuple[float, float] | None = None
    for rows in DataLoader(Data(_BATCH * int(steps), delays["data"]), _BATCH):
        loss = (model(rows) - rows.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if where == "reduce":
            pending = [distributed.all_reduce(p.grad, async_op=True) for p in model.parameters()]
            for work in pending:
                work.wait()
        optimizer.step()
        began = began or (time.perf_counter(), time.thread_time())
    assert began
    seconds, processor = time.perf_counter() - began[0], time.thread_time() - began[1]
    parameters = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(hashlib.sha256(parameters).hexdigest(), seconds, processor, flush=True)
    distributed.destroy_process_group()
    os._exit(0)  # Gloo's destructor waits for its thread, which may wait for the GIL.


if __name__ == "__main__":
    main(*sys.argv[1:])
