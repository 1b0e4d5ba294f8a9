"""The digits task: its training, and its network."""

import re
from pathlib import Path

import pytest
import torch

from mlbench import names
from mlbench_worker.data.digits import load_digits
from mlbench_worker.tasks.digits import ResNet8
from tests.conftest import wait_for
from tests.support.ranks import Rank, assert_same_losses, assert_stopped_at, run_ranks, start_ranks

_TASK = ("-m", "mlbench_worker.tasks.digits")
_STEPS = 11  # in an epoch
_SHARES = {1: [128], 2: [64, 64], 3: [42, 43, 43]}  # of a batch, by number of workers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two workers that train to a goal which comes soon."""
    return run_ranks(tmp_path_factory.mktemp("two"), 2, *_TASK, "--goal=90")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """A worker that trains for an epoch."""
    return run_ranks(tmp_path_factory.mktemp("one"), 1, *_TASK, "--epochs=1")


def batch_losses(ranks: list[Rank]) -> list[float]:
    """Return the mean loss of each step's batch of all ranks."""
    shares = _SHARES[len(ranks)]
    by_step = zip(*(rank.series(names.TRAIN_LOSS) for rank in ranks), strict=True)
    return [
        sum(loss * share for loss, share in zip(losses, shares, strict=True)) / sum(shares)
        for losses in by_step
    ]


@pytest.mark.slow
def test_its_own_goal_is_within_reach(tmp_path: Path) -> None:
    assert_stopped_at(97, run_ranks(tmp_path, 1, *_TASK))


def test_two_workers_stop_at_the_goal(two: list[Rank]) -> None:
    for accuracy in assert_stopped_at(90, two):
        right = accuracy * 364 / 100
        assert right == pytest.approx(round(right), abs=1e-9), "364 images, each counted once"


def test_rank_0_records_the_result_as_mlbenchs_tasks_do(two: list[Rank], alone: list[Rank]) -> None:
    lines = [line["metrics"] for line in two[0].lines() if "metrics" in line]
    *_, evaluated, reported, totals, last = lines
    result = reported[names.TASK_RESULT]
    seconds = evaluated[names.TRAIN_SECONDS]
    assert result.startswith(f"90% Top 1 Validation Accuracy reached in {seconds:.3f} seconds, ")
    assert re.findall(r", ([^:,]+): [0-9.]+ seconds", result) == [
        *("Compute", "Communication", "Metrics Computation", "Pre-processing")
    ]
    assert two[1].series(names.TASK_RESULT) == alone[0].series(names.TASK_RESULT) == []
    # The same by its steps of a batch, which its command line draws, also without the goal.
    assert totals[f"{names.MLBENCH_TOTAL}agg"] == last[names.phase_metric("communication")]
    assert all(len(alone[0].series(name)) == 1 for name in totals)
    assert not two[1].series(f"{names.MLBENCH_TOTAL}agg")


def test_each_rank_records_its_training(two: list[Rank]) -> None:
    for rank in two:
        epochs = len(rank.series(names.VAL_ACCURACY))
        assert rank.series(names.EPOCH) == list(range(epochs))
        assert len(rank.series(names.TRAIN_LOSS)) == epochs * _STEPS
        assert rank.series(names.LEARNING_RATE) == [0.05] * epochs * _STEPS
        assert len(rank.series(names.TRAIN_ACCURACY)) == epochs
        assert rank.series(names.SAMPLES)[-1] == epochs * _STEPS * 64
        phases = {
            phase: rank.series(names.phase_metric(phase))[-1]
            for phase in set(names.PHASES) - {"compute", "checkpoint", "restore", "compile"}
        }
        assert all(phases.values())
        training = sum(phases.values()) - phases["evaluation"]
        seconds = rank.series(names.TRAIN_SECONDS)[-1]
        assert 0.8 * seconds < training <= seconds, "the phases make up the training"
    first, second = (rank.series(names.TRAIN_LOSS) for rank in two)
    assert first != second, "each has images of its own"


def test_the_settings_tell_what_was_trained_on(alone: list[Rank]) -> None:
    [settings] = alone[0].stated("settings")
    assert settings.items() >= {"data": "digits", "batch_size": 128, "seed": 0}.items()
    assert (settings["train_samples"], settings["validation_samples"]) == (1433, 364)
    assert settings["data_sha256"] == load_digits().sha256


def test_the_same_seed_gives_the_same_losses_and_another_one_others(
    two: list[Rank], alone: list[Rank], tmp_path: Path
) -> None:
    again = run_ranks(tmp_path / "two", 2, *_TASK, "--epochs=1")
    again += run_ranks(tmp_path / "one", 1, *_TASK, "--epochs=1")
    assert_same_losses(two + alone, again)
    [other] = run_ranks(tmp_path / "other", 1, *_TASK, "--epochs=1", "--seed=1")
    assert other.series(names.TRAIN_LOSS) != alone[0].series(names.TRAIN_LOSS)


def test_any_number_of_workers_trains_the_same_model(
    two: list[Rank], alone: list[Rank], tmp_path: Path
) -> None:
    three = run_ranks(tmp_path, 3, *_TASK, "--epochs=1")
    assert batch_losses(two)[:_STEPS] == pytest.approx(batch_losses(alone), rel=5e-3)
    assert batch_losses(three) == pytest.approx(batch_losses(alone), rel=5e-3)


def test_a_rank_fails_soon_when_its_peer_is_killed(tmp_path: Path) -> None:
    left, killed = start_ranks(tmp_path, 2, *_TASK, "--epochs", "10000", "--goal", "100")
    wait_for(lambda: killed.metrics_file.is_file() and killed.series(names.TRAIN_LOSS))
    killed.kill()
    _, errors = left.output(seconds=15)
    assert left.returncode == 1
    assert "WorldError: rank 0 of 2 lost a peer:" in errors


def test_its_size_is_that_of_the_digits_task() -> None:
    model = ResNet8(in_channels=1, classes=10, width=32)
    assert sum(parameter.numel() for parameter in model.parameters()) == 308_074


def test_an_image_does_not_see_the_others_of_its_batch() -> None:
    torch.manual_seed(0)
    model = ResNet8(in_channels=1, classes=10, width=8)
    images = torch.rand(6, 1, 8, 8)
    apart = torch.cat([model(image[None]) for image in images])
    assert torch.allclose(model(images), apart, atol=1e-5)
