"""An epoch trains and records each step; an evaluation counts exactly."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from mlbench import Tracker, names
from worker.data.images import Images, ShiftedBatches
from worker.training.allreduce import FlatGradients
from worker.training.distributed import World
from worker.training.loop import evaluate, train_epoch

_IMAGES = 20
_BATCH = 6


class Fixed(nn.Module):
    """Answers with what the first pixel says: the logits of class 0 and 1 are pixel and 0.5."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return ``[n, 2]`` logits."""
        pixel = images[:, 0, 0, 0]
        return torch.stack([pixel, torch.full_like(pixel, 0.5)], dim=1)


@pytest.fixture
def data() -> Images:
    torch.manual_seed(0)
    return Images(torch.rand(_IMAGES, 1, 4, 4), torch.arange(_IMAGES) % 2)


def test_an_epoch_records_each_step_and_times_each_phase(data: Images, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    batches = ShiftedBatches(data, _BATCH, World(), seed=0, epoch=0)
    with torch.no_grad():
        first = functional.cross_entropy(model(batches[0].images), batches[0].labels).item()
    with Tracker({names.ENV_METRICS_FILE: str(file)}) as tracker:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25, fused=True)
        score = train_epoch(model, FlatGradients(model), optimizer, batches, World(), tracker)
        assert set(tracker.phase_seconds()) == set(names.PHASES) - {"evaluation"}

    steps = [json.loads(line) for line in file.read_text().splitlines()][:-1]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert {line["metrics"][names.LEARNING_RATE] for line in steps} == {0.25}
    losses = [line["metrics"][names.TRAIN_LOSS] for line in steps]
    assert losses[0] == pytest.approx(first, rel=1e-6)
    assert score.loss == pytest.approx(sum(losses) / 3, rel=1e-6)
    assert 0 <= score.accuracy <= 100
    assert tracker.samples == 18


def test_training_steps_along_the_mean_gradient_of_each_batch(data: Images) -> None:
    """The same weights come out as with PyTorch's own mean loss and fresh gradients."""
    batches = ShiftedBatches(data, _BATCH, World(), seed=0, epoch=0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_epoch(model, FlatGradients(model), optimizer, batches, World(), Tracker({}))
    trained = [parameter.detach().clone() for parameter in model.parameters()]

    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.data = weight
    for step in range(len(batches)):
        mean = functional.cross_entropy(model(batches[step].images), batches[step].labels)
        moves = torch.autograd.grad(mean, list(model.parameters()))
        for parameter, move in zip(model.parameters(), moves, strict=True):
            parameter.data -= 0.1 * move
    assert all(map(torch.allclose, trained, model.parameters()))


def test_an_evaluation_counts_what_is_right() -> None:
    pixels = torch.tensor([0.9, 0.8, 0.1, 0.2, 0.7])
    labels = torch.tensor([0, 0, 1, 0, 1])  # right, right, right, wrong, wrong
    shard = Images(pixels.view(5, 1, 1, 1), labels)
    tracker = Tracker({})
    score = evaluate(Fixed(), shard, World(), tracker)
    assert score.accuracy == 60.0
    expected = functional.cross_entropy(Fixed()(shard.images), labels).item()
    assert score.loss == pytest.approx(expected, rel=1e-6)
    assert set(tracker.phase_seconds()) == {"evaluation"}


class WithAnother(World):
    """A rank whose peer adds a summed loss of 8.0, 1 right answer, and 3 images."""

    def sum_(self, tensor: torch.Tensor) -> None:
        """Add the peer's totals."""
        tensor.add_(torch.tensor([8.0, 1.0, 3.0], dtype=tensor.dtype))


def test_an_evaluation_weighs_shards_by_their_images() -> None:
    shard = Images(torch.ones(5, 1, 1, 1), torch.zeros(5, dtype=torch.int64))
    alone = evaluate(Fixed(), shard, World(), Tracker({}))
    both = evaluate(Fixed(), shard, WithAnother(0, 2), Tracker({}))
    assert alone.accuracy == 100.0
    assert both.accuracy == 75.0
    assert both.loss == pytest.approx((5 * alone.loss + 8.0) / 8, rel=1e-6)
