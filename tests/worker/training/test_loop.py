"""An epoch trains and records each step; an evaluation counts exactly."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from mlbench import Tracker, names
from worker.data.images import AugmentedBatches, Images
from worker.training.deadline import Deadline
from worker.training.device import DeviceOptions, prepare
from worker.training.distributed import World
from worker.training.exchange import ExchangeOptions, make_exchange
from worker.training.loop import Trainer, evaluate, train_epoch
from worker.training.schedule import Constant, WarmupThenSteps

_ALONE = World()
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


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))


def make_trainer(
    model: nn.Module,
    tracker: Tracker,
    world: World = _ALONE,
    rate: float = 0.1,
    deadline_at: float | None = None,
) -> Trainer:
    execution = prepare(DeviceOptions(device="cpu", channels_last=False), world)
    parameters = list(model.parameters()) or [nn.Parameter(torch.zeros(1))]
    return Trainer(
        model=model,
        exchange=make_exchange(ExchangeOptions(), model, _ALONE),
        optimizer=torch.optim.SGD(parameters, lr=1.0, fused=True),
        schedule=Constant(rate),
        execution=execution,
        world=world,
        tracker=tracker,
        scaler=execution.make_scaler(),
        deadline=Deadline(deadline_at, world, tracker),
    )


def make_batches(data: Images) -> AugmentedBatches:
    return AugmentedBatches(data, _BATCH, World(), seed=0, epoch=0, shift=1, flip=False)


def test_an_epoch_records_each_step_and_times_each_phase(data: Images, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    model = make_model()
    with torch.no_grad():
        batch = next(iter(make_batches(data)))
        first = functional.cross_entropy(model(batch.images), batch.labels).item()
    with Tracker({names.ENV_METRICS_FILE: str(file)}) as tracker:
        score = train_epoch(make_trainer(model, tracker, rate=0.25), make_batches(data))
        assert set(tracker.phase_seconds()) == set(names.PHASES) - {"evaluation"}

    steps = [json.loads(line) for line in file.read_text().splitlines()][:-1]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert {line["metrics"][names.LEARNING_RATE] for line in steps} == {0.25}
    losses = [line["metrics"][names.TRAIN_LOSS] for line in steps]
    assert losses[0] == pytest.approx(first, rel=1e-6)
    assert score.loss == pytest.approx(sum(losses) / 3, rel=1e-6)
    assert 0 <= score.accuracy <= score.accuracy5 == 100
    assert tracker.samples == 18


def test_a_deadline_ends_the_epoch_after_the_step(data: Images) -> None:
    tracker = Tracker({})
    trainer = make_trainer(make_model(), tracker, deadline_at=0.0)
    score = train_epoch(trainer, make_batches(data))
    assert (tracker.steps, tracker.samples) == (1, _BATCH)
    assert 0 <= score.accuracy <= 100
    assert trainer.deadline.has_passed()


def test_training_steps_along_the_mean_gradient_of_each_batch(data: Images) -> None:
    """The same weights come out as with PyTorch's own mean loss and fresh gradients."""
    model, by_hand = make_model(), make_model()
    train_epoch(make_trainer(model, Tracker({})), make_batches(data))
    for batch in make_batches(data):
        mean = functional.cross_entropy(by_hand(batch.images), batch.labels)
        moves = torch.autograd.grad(mean, list(by_hand.parameters()))
        for parameter, move in zip(by_hand.parameters(), moves, strict=True):
            parameter.data -= 0.1 * move
    assert all(map(torch.allclose, model.parameters(), by_hand.parameters()))


def test_each_step_has_the_learning_rate_of_the_schedule(data: Images, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    with Tracker({names.ENV_METRICS_FILE: str(file)}) as tracker:
        schedule = WarmupThenSteps(0.1, 0.3, warmup_steps=2, milestones=[4])
        trainer = replace(make_trainer(make_model(), tracker), schedule=schedule)
        for _ in range(2):
            train_epoch(trainer, make_batches(data))
    lines = [json.loads(line)["metrics"] for line in file.read_text().splitlines()]
    rates = [line[names.LEARNING_RATE] for line in lines if names.LEARNING_RATE in line]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.03, 0.03])


def test_an_evaluation_counts_what_is_right() -> None:
    pixels = torch.tensor([0.9, 0.8, 0.1, 0.2, 0.7])
    labels = torch.tensor([0, 0, 1, 0, 1])  # right, right, right, wrong, wrong
    shard = Images(pixels.view(5, 1, 1, 1), labels)
    tracker = Tracker({})
    score = evaluate(make_trainer(Fixed(), tracker), shard.batches(2))
    assert score.accuracy == 60.0
    assert score.accuracy5 == 100.0
    expected = functional.cross_entropy(Fixed()(shard.images), labels).item()
    assert score.loss == pytest.approx(expected, rel=1e-6)
    assert set(tracker.phase_seconds()) == {"evaluation"}


class Ranked(nn.Module):
    """Finds class 0 the likeliest of seven, then class 1, and so on."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return ``[n, 7]`` logits."""
        return -torch.arange(7.0).expand(len(images), 7)


def test_the_five_likeliest_are_five() -> None:
    shard = Images(torch.zeros(4, 1, 1, 1), torch.tensor([0, 4, 5, 6]))
    score = evaluate(make_trainer(Ranked(), Tracker({})), [shard])
    assert (score.accuracy, score.accuracy5) == (25.0, 50.0)


class WithAnother(World):
    """A rank whose peer adds a summed loss of 8.0, 1 right answer, 2 nearly so, and 3 images."""

    def sum_(self, tensor: torch.Tensor) -> None:
        """Add the peer's totals."""
        tensor.add_(torch.tensor([8.0, 1.0, 2.0, 3.0], dtype=tensor.dtype))


def test_an_evaluation_weighs_shards_by_their_images() -> None:
    shard = Images(torch.ones(5, 1, 1, 1), torch.zeros(5, dtype=torch.int64))
    alone = evaluate(make_trainer(Fixed(), Tracker({})), [shard])
    both = evaluate(make_trainer(Fixed(), Tracker({}), WithAnother(0, 2)), [shard])
    assert alone.accuracy == 100.0
    assert both.accuracy == 75.0
    assert both.accuracy5 == 87.5
    assert both.loss == pytest.approx((5 * alone.loss + 8.0) / 8, rel=1e-6)


def test_an_evaluation_uses_running_statistics_and_training_those_of_the_batch(
    data: Images,
) -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(16, 2))
    trainer = make_trainer(model, Tracker({}))
    before = evaluate(trainer, data.batches(20)).loss
    assert evaluate(trainer, data.batches(7)).loss == pytest.approx(before, rel=1e-6)
    train_epoch(trainer, make_batches(data))
    (norm, *_) = model
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.num_batches_tracked == 3
