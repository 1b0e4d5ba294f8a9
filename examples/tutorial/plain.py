"""Train a small network on handwritten digits."""

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
train, validation = torch.arange(1440), torch.arange(1440, len(labels))

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

for epoch in range(10):
    for batch in train[torch.randperm(len(train))].split(96):
        loss = cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        hits = model(images[validation]).argmax(dim=1) == labels[validation]
    print(f"epoch {epoch}: {100 * hits.float().mean():.1f} %", flush=True)
