"""Fit a line with accelerate, on as many workers as there are."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from mlbench_callbacks.accelerate import MLBenchTracker

recorded = MLBenchTracker()
accelerator = Accelerator(cpu=True, log_with=recorded)
accelerator.init_trackers("line", config={"learning_rate": 0.1, "batch_size": 32})
t = recorded.tracker  # an mlbench.Tracker
t.goal("val_loss", 0.02, lower_is_better=True)

torch.manual_seed(0)
x = torch.rand(4000, 1)
data = DataLoader(TensorDataset(x, 3 * x + 1), batch_size=16, shuffle=True)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, data = accelerator.prepare(model, optimizer, data)

for epoch in range(8):
    t.epoch(epoch)
    for inputs, targets in data:
        with t.phase("forward"):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
        with t.phase("backward"):
            optimizer.zero_grad()
            accelerator.backward(loss)
        with t.phase("optimizer"):
            optimizer.step()
        t.step(samples=len(inputs))
        accelerator.log({"train_loss": loss.item()}, step=t.steps)
    with t.phase("evaluation"), torch.no_grad():
        val_loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1).item()
    accelerator.log({"val_loss": val_loss}, step=t.steps)
    print(t.steps, val_loss)
accelerator.end_training()
