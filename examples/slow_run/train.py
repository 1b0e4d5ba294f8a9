"""Train a small network on handwritten digits with DistributedDataParallel."""

import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
labels = torch.tensor(digits.target)


class Files(Dataset[tuple[Tensor, Tensor]]):
    """Digits in one file each, on network storage."""

    def __len__(self) -> int:
        return len(images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.006)  # the time to open a file
        return images[index], labels[index]


def report(epoch: int, loss: Tensor) -> None:
    """Send the loss to a metrics server."""
    time.sleep(0.03)  # the time until the server responds
    print(f"epoch {epoch}: loss {loss:.3f}", flush=True)


distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.manual_seed(0)
network = nn.Sequential(
    *(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU()),
    *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()),
    *(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU()),
    *(nn.Flatten(), nn.Linear(128 * 8 * 8, 10)),
)
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
data = Files()
sampler: DistributedSampler[tuple[Tensor, Tensor]] = DistributedSampler(data)
batches = DataLoader(data, batch_size=16, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for inputs, targets in batches:
        loss = cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            report(epoch, loss)
distributed.destroy_process_group()
