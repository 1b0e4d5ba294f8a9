"""The digits task: its training, and its network."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mlbench import names
from tests.conftest import wait_for
from tests.worker.ranks import Rank, finish, start_ranks
from worker.data.digits import load_digits
from worker.tasks.digits import ResNet8

_TASK = ("-m", "worker.tasks.digits")
_STEPS = 11  # in an epoch
_SHARES = {1: [128], 2: [64, 64], 3: [42, 43, 43]}  # of a batch, by number of workers


@pytest.fixture(scope="module")
def two_to_the_goal(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    ranks = start_ranks(tmp_path_factory.mktemp("goal"), 2, *_TASK)
    finish(ranks)
    return ranks


@pytest.fixture(scope="module")
def one_epoch_alone(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    ranks = start_ranks(tmp_path_factory.mktemp("alone"), 1, *_TASK, "--epochs", "1")
    finish(ranks)
    return ranks


def batch_losses(ranks: list[Rank]) -> list[float]:
    """Return the mean loss of each step's batch of all ranks."""
    shares = _SHARES[len(ranks)]
    by_step = zip(*(rank.series(names.TRAIN_LOSS) for rank in ranks), strict=True)
    return [
        sum(loss * share for loss, share in zip(losses, shares, strict=True)) / sum(shares)
        for losses in by_step
    ]


def test_two_workers_stop_at_the_goal(two_to_the_goal: list[Rank]) -> None:
    first, second = two_to_the_goal
    accuracies = first.series(names.VAL_ACCURACY)
    assert accuracies[-1] >= 97.0
    assert all(accuracy < 97.0 for accuracy in accuracies[:-1])
    assert accuracies == second.series(names.VAL_ACCURACY)
    assert first.series(names.VAL_LOSS) == second.series(names.VAL_LOSS)
    for accuracy in accuracies:
        right = accuracy * 364 / 100
        assert right == pytest.approx(round(right), abs=1e-9), "364 images, each counted once"


def test_each_rank_records_its_training(two_to_the_goal: list[Rank]) -> None:
    for rank in two_to_the_goal:
        epochs = len(rank.series(names.VAL_ACCURACY))
        assert rank.series(names.EPOCH) == list(range(epochs))
        assert len(rank.series(names.TRAIN_LOSS)) == epochs * _STEPS
        assert rank.series(names.LEARNING_RATE) == [0.05] * epochs * _STEPS
        assert len(rank.series(names.TRAIN_ACCURACY)) == epochs
        assert rank.series(names.SAMPLES)[-1] == epochs * _STEPS * 64
        phases = {phase: rank.series(names.phase_metric(phase))[-1] for phase in names.PHASES}
        assert all(phases.values())
        training = sum(phases.values()) - phases["evaluation"]
        seconds = rank.series(names.TRAIN_SECONDS)[-1]
        assert 0.8 * seconds < training <= seconds, "the phases make up the training"
    one, other = (rank.series(names.TRAIN_LOSS) for rank in two_to_the_goal)
    assert one != other, "each has images of its own"


def test_the_settings_tell_what_was_trained_on(one_epoch_alone: list[Rank]) -> None:
    [settings] = one_epoch_alone[0].stated("settings")
    assert settings.items() >= {"data": "digits", "batch_size": 128, "seed": 0}.items()
    assert settings["data_sha256"] == load_digits().sha256


def test_two_workers_stop_at_their_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of an epoch, most likely: it has 11 steps. What they have is evaluated."""
    checkpoints = tmp_path / "checkpoints"
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(checkpoints))
    monkeypatch.setenv(names.ENV_DEADLINE, str(time.time() + 8))
    ranks = start_ranks(tmp_path, 2, *_TASK, "--epochs", "10000", "--goal", "100")
    outputs = finish(ranks)
    steps = len(ranks[0].series(names.TRAIN_LOSS))
    epochs = len(ranks[0].series(names.VAL_ACCURACY))
    assert (epochs - 1) * _STEPS < steps <= epochs * _STEPS
    for rank, output in zip(ranks, outputs, strict=True):
        assert output.count("the deadline has passed: training ends\n") == 1
        assert len(rank.series(names.TRAIN_LOSS)) == steps
        assert rank.series(names.VAL_ACCURACY) == ranks[0].series(names.VAL_ACCURACY)
        assert rank.series(names.SAMPLES)[-1] == steps * 64
    saved = sorted(file.name for file in checkpoints.glob("epoch-*.pt"))
    assert saved[-1:] in ([f"epoch-{epochs - 1:08}.pt"], []), "whole epochs only"


def test_the_same_seed_gives_the_same_losses(
    two_to_the_goal: list[Rank], one_epoch_alone: list[Rank], tmp_path: Path
) -> None:
    again = start_ranks(tmp_path, 2, *_TASK, "--epochs", "1")
    again += start_ranks(tmp_path, 1, *_TASK, "--epochs", "1")
    finish(again)
    for rank, same in zip(two_to_the_goal + one_epoch_alone, again, strict=True):
        assert rank.series(names.TRAIN_LOSS)[:_STEPS] == same.series(names.TRAIN_LOSS)
        assert rank.series(names.VAL_LOSS)[:1] == same.series(names.VAL_LOSS)


def test_any_number_of_workers_trains_the_same_model(
    two_to_the_goal: list[Rank], one_epoch_alone: list[Rank], tmp_path: Path
) -> None:
    alone = batch_losses(one_epoch_alone)
    three = start_ranks(tmp_path, 3, *_TASK, "--epochs", "1")
    finish(three)
    assert batch_losses(two_to_the_goal)[:_STEPS] == pytest.approx(alone, rel=5e-3)
    assert batch_losses(three) == pytest.approx(alone, rel=5e-3)


def test_a_rank_fails_soon_when_its_peer_is_killed(tmp_path: Path) -> None:
    left, killed = start_ranks(tmp_path, 2, *_TASK, "--epochs", "10000", "--goal", "100")
    wait_for(lambda: killed.metrics_file.is_file() and killed.series(names.TRAIN_LOSS), 60)
    killed.kill()
    killed.output()
    _, errors = left.output(seconds=15)
    assert left.returncode == 1
    assert "WorldError: rank 0 of 2 lost a peer:" in errors


def test_by_hand_it_needs_no_environment_and_another_seed_trains_otherwise(
    one_epoch_alone: list[Rank],
) -> None:
    done = subprocess.run(
        [sys.executable, *_TASK, "--seed", "1", "--goal", "5"],
        capture_output=True,
        text=True,
        check=True,
    )
    start, epoch, end = done.stdout.splitlines()
    assert start.startswith("rank 0 of 1: 1433 images to train, 364 to validate")
    assert epoch.startswith("epoch 0, step 11: training loss ")
    assert end == "goal of 5.0 % reached"
    assert done.stderr == ""
    losses = one_epoch_alone[0].series(names.TRAIN_LOSS)
    assert f"training loss {sum(losses) / len(losses):.3f}" not in epoch


def test_its_size_is_that_of_the_digits_task() -> None:
    model = ResNet8(in_channels=1, classes=10, width=32)
    assert sum(parameter.numel() for parameter in model.parameters()) == 308_074


def test_an_image_does_not_see_the_others_of_its_batch() -> None:
    torch.manual_seed(0)
    model = ResNet8(in_channels=1, classes=10, width=8)
    images = torch.rand(6, 1, 8, 8)
    apart = torch.cat([model(image[None]) for image in images])
    assert torch.allclose(model(images), apart, atol=1e-5)
