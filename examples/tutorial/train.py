"""Train a small network on handwritten digits, on as many workers as there are."""

import argparse
import hashlib
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from mlbench import Tracker

BATCH_SIZE = 96

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.1)
options = parser.parse_args()

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
train, validation = torch.arange(1440), torch.arange(1440, len(labels))

torch.manual_seed(int(os.environ.get("MLBENCH_SEED", 0)))
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
)
optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)

t = Tracker()
t.goal("val_global_Prec@1", 90.0)
if rank == 0:
    t.settings(
        {
            "learning_rate": options.learning_rate,
            "batch_size": BATCH_SIZE,
            "data": "digits",
            "data_sha256": hashlib.sha256(digits.data.tobytes()).hexdigest(),
        }
    )

for epoch in range(60):
    t.epoch(epoch)
    for batch in train[torch.randperm(len(train))].split(BATCH_SIZE):
        share = batch[rank::size]
        with t.phase("forward"):
            loss = cross_entropy(model(images[share]), labels[share])
        with t.phase("backward"):
            optimizer.zero_grad()
            loss.backward()
        with t.phase("optimizer"):
            optimizer.step()
        t.step(samples=len(share), train_loss=loss)
    with t.phase("evaluation"), torch.no_grad():
        hits = model(images[validation]).argmax(dim=1) == labels[validation]
    accuracy = 100 * hits.float().mean().item()
    t.log({"val_global_Prec@1": accuracy}, step=t.steps)
    print(f"epoch {epoch}: {accuracy:.1f} %", flush=True)
    if t.goal_reached:
        break
