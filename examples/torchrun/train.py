"""Learn to add eight numbers, on as many processes as torchrun starts."""

import torch
from torch import distributed

from mlbench import Tracker

distributed.init_process_group("gloo")
torch.manual_seed(distributed.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

with Tracker() as t:
    t.goal("val_loss", 0.05, lower_is_better=True)
    for epoch in range(20):
        t.epoch(epoch)
        for _ in range(5):
            inputs = torch.randn(32, 8)
            with t.phase("forward"):
                loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
            with t.phase("backward"):
                optimizer.zero_grad()
                loss.backward()
            with t.phase("optimizer"):
                optimizer.step()
            t.step(samples=len(inputs), train_loss=loss)
        t.log({"val_loss": loss.detach()}, step=t.steps)
distributed.destroy_process_group()
