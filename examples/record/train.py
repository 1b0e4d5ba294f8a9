"""Learn to add eight numbers in a few seconds, on as many processes as a launcher starts."""

import os
import sys

import torch
from torch import distributed

from mlbench import Tracker

learning_rate = float(sys.argv[1]) if sys.argv[1:] else 0.05
# torchrun's names; srun has its own, and a process alone has none.
rank = int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or 0)
size = int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_NTASKS") or 1)

torch.manual_seed(rank)
model: torch.nn.Module = torch.nn.Linear(8, 1)
if size > 1:
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)

with Tracker() as t:
    t.goal("val_loss", 0.05, lower_is_better=True)
    t.settings({"learning_rate": learning_rate})
    for epoch in range(20):
        t.epoch(epoch)
        for _ in range(20):
            inputs = torch.randn(32, 8)
            loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            t.step(samples=len(inputs), train_loss=loss)
        t.log({"val_loss": loss.detach()}, step=t.steps)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
if size > 1:
    distributed.destroy_process_group()
