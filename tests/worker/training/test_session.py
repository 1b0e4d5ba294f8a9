"""Training epochs, evaluations and deadlines of a session."""

import json
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from mlbench import Tracker
from mlbench.benchmarks.task_options import ExchangeOptions, ImageModelOptions
from mlbench.contract import names
from mlbench_worker.data.images import Images, augmented_batches
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.training.exchange.exchange_base import Exchange
from mlbench_worker.training.image_trainer import ImageScore, ImageTrainer
from mlbench_worker.training.schedules import Schedule
from mlbench_worker.training.session import Session
from tests.support.ranks import finish, start_ranks

_ALONE = World()
_IMAGES = 20
_BATCH = 6


class Fixed(nn.Module):
    """Returns fixed logits: the first pixel for class 0, and 0.5 for class 1."""

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


def make_session(
    tracker: Tracker, world: World = _ALONE, deadline_at: float | None = None
) -> Session:
    execution = set_up(ImageModelOptions(device="cpu", channels_last=False), world)
    return Session(world, tracker, execution, deadline_at)


def make_trainer(
    model: nn.Module, session: Session, schedule: Schedule = lambda step: 0.1
) -> ImageTrainer:
    parameters = list(model.parameters()) or [nn.Parameter(torch.zeros(1))]
    optimizer = torch.optim.SGD(parameters, lr=1.0, fused=True)
    trainer = ImageTrainer(session, model, optimizer, schedule, ExchangeOptions("per-layer"))
    trainer.exchange = Exchange(model, session.world)
    return trainer


def make_batches(data: Images) -> list[Images]:
    return list(augmented_batches(data, _BATCH, World(), 0, 0, shift=1, flip=False))


def test_an_epoch_records_each_step_and_times_each_phase(data: Images, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    model = make_model()
    with torch.no_grad():
        batch = make_batches(data)[0]
        first = functional.cross_entropy(model(batch.images), batch.labels).item()
    with Tracker({names.ENV_METRICS_FILE: str(file)}) as tracker:
        trainer = make_trainer(model, make_session(tracker), schedule=lambda step: 0.1 + step)
        score = trainer.train(make_batches(data), _BATCH)
        untimed = {"compute", "checkpoint", *names.UNTRAINED}
        assert set(tracker.phase_seconds()) == set(names.PHASES) - untimed

    steps = [json.loads(line) for line in file.read_text().splitlines()][:-1]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert [line["metrics"][names.LEARNING_RATE] for line in steps] == [0.1, 1.1, 2.1]
    losses = [line["metrics"][names.TRAIN_LOSS] for line in steps]
    assert losses[0] == pytest.approx(first, rel=1e-6)
    assert score.loss == pytest.approx(sum(losses) / 3, rel=1e-6)
    assert 0 <= score.accuracy <= score.accuracy5 == 100
    assert tracker.samples == 18


def test_training_steps_along_the_mean_gradient_of_each_batch(data: Images) -> None:
    """The weights must match PyTorch's own mean loss with fresh gradients."""
    model, by_hand = make_model(), make_model()
    make_trainer(model, make_session(Tracker({}))).train(make_batches(data), _BATCH)
    for batch in make_batches(data):
        mean = functional.cross_entropy(by_hand(batch.images), batch.labels)
        moves = torch.autograd.grad(mean, list(by_hand.parameters()))
        for parameter, move in zip(by_hand.parameters(), moves, strict=True):
            parameter.data -= 0.1 * move
    assert all(map(torch.allclose, model.parameters(), by_hand.parameters()))


def test_an_evaluation_counts_correct_predictions() -> None:
    pixels = torch.tensor([0.9, 0.8, 0.1, 0.2, 0.7])
    labels = torch.tensor([0, 0, 1, 0, 1])  # right, right, right, wrong, wrong
    shard = Images(pixels.view(5, 1, 1, 1), labels)
    tracker = Tracker({})
    score = make_trainer(Fixed(), make_session(tracker)).evaluate(shard.batches(2))
    assert score.accuracy == 60.0
    assert score.accuracy5 == 100.0
    expected = functional.cross_entropy(Fixed()(shard.images), labels).item()
    assert score.loss == pytest.approx(expected, rel=1e-6)
    assert set(tracker.phase_seconds()) == {"evaluation"}


def test_top_5_accuracy_counts_five_classes() -> None:
    logits = -torch.arange(7.0).expand(4, 7)
    score = ImageScore.of(logits, torch.tensor([0, 4, 5, 6]), torch.zeros(()))
    assert (score.accuracy, score.accuracy5) == (25.0, 50.0)


def test_only_training_updates_running_statistics(data: Images) -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(16, 2))
    trainer = make_trainer(model, make_session(Tracker({})))
    before = trainer.evaluate(data.batches(20)).loss
    assert trainer.evaluate(data.batches(7)).loss == pytest.approx(before, rel=1e-6)
    trainer.train(make_batches(data), _BATCH)
    (norm, *_) = model
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.num_batches_tracked == 3


def test_a_passed_deadline_ends_the_epoch_and_stays_passed(
    data: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = Tracker({})
    assert not make_session(tracker).deadline_has_passed()
    assert tracker.phase_seconds() == {}, "ranks communicated without a deadline"
    assert not make_session(tracker, deadline_at=time.time() + 3600).deadline_has_passed()
    assert set(tracker.phase_seconds()) == {"communication"}

    late = make_session(tracker, deadline_at=time.time() - 1)
    score = make_trainer(make_model(), late).train(make_batches(data), _BATCH)
    assert (tracker.steps, tracker.samples) == (1, _BATCH), "the epoch did not end after the step"
    assert 0 <= score.accuracy <= 100
    assert late.deadline_has_passed()
    assert capsys.readouterr().out == "the deadline has passed: training ends\n"


# The deadline of rank 1 is in the future, and the deadline of rank 0 has passed.
_UNEQUAL = """
import os, time
from mlbench import Tracker
from mlbench.benchmarks.task_options import DeviceOptions
from mlbench_worker.ranks.distributed import join_world, set_up
from mlbench_worker.training.session import Session

with Tracker() as tracker, join_world() as world:
    execution = set_up(DeviceOptions("cpu"), world)
    session = Session(world, tracker, execution, time.time() + 3600 * world.rank)
    print(session.deadline_has_passed(), session.deadline_has_passed(), flush=True)
    print(tracker.phase_seconds()["communication"] > 0, flush=True)
os._exit(0)
"""


def test_all_ranks_agree_on_the_deadline_despite_their_clocks(tmp_path: Path) -> None:
    outputs = finish(start_ranks(tmp_path, 2, "-c", _UNEQUAL))
    said = "the deadline has passed: training ends\nTrue True\nTrue\n"
    assert outputs == [said, said]


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({names.ENV_DATASETS: "/data", names.ENV_HOME: "/home"}, "/data"),
        ({names.ENV_DATASETS: "", names.ENV_HOME: "/home"}, "/home/datasets"),
        ({names.ENV_DATASETS: "data"}, Path("data").absolute()),
    ],
)
def test_the_datasets_folder_comes_from_the_environment_or_the_home(
    environ: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert make_session(Tracker({})).datasets == Path(folder)
