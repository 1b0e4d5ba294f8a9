"""The tasks on digits: their training, the ResNet8, and the derivative of the linear model."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from mlbench.contract import names
from mlbench_worker.data.digits import load_digits
from mlbench_worker.tasks.digits import ResNet8
from mlbench_worker.tasks.digits_linear import softmax_derivative
from tests.conftest import wait_for
from tests.support.ranks import (
    Rank,
    assert_same_losses,
    assert_stopped_at,
    batch_losses,
    run_ranks,
    start_ranks,
)

_TASK = ("-m", "mlbench_worker.tasks.digits")
_STEPS, _BATCH = 11, 128  # steps per epoch, and batch size of all workers together


@dataclass(frozen=True)
class Case:
    """A task, and the expectations of its training."""

    task: str
    goal: int
    """A goal that is reached quickly."""
    rate: float
    epochs: int
    """Number of epochs of the short trainings."""
    rounding: float
    """Relative difference of losses that rounding causes with another number of workers."""

    def train(self, folder: Path, size: int, *options: str) -> list[Rank]:
        """Train to the goal."""
        module = f"mlbench_worker.tasks.{self.task}"
        return run_ranks(folder, size, "-m", module, f"--goal={self.goal}", *options)

    def begin(self, folder: Path, size: int, *options: str) -> list[Rank]:
        """Train for a few epochs."""
        return self.train(folder, size, f"--epochs={self.epochs}", *options)


_CASES = [Case("digits", 80, 0.05, 1, 5e-3), Case("digits_linear", 93, 0.5, 4, 1e-4)]


@pytest.fixture(scope="module", params=_CASES, ids=lambda case: case.task)
def case(request: pytest.FixtureRequest) -> Case:
    of_task: Case = request.param
    return of_task


@pytest.fixture(scope="module")
def two(case: Case, tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two workers, trained to the goal."""
    return case.train(tmp_path_factory.mktemp("two"), 2)


@pytest.fixture(scope="module")
def alone(case: Case, tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """A single worker, trained for a few epochs."""
    return case.begin(tmp_path_factory.mktemp("one"), 1)


@pytest.mark.slow
def test_the_default_goal_is_reached(tmp_path: Path) -> None:
    assert_stopped_at(97, run_ranks(tmp_path, 1, *_TASK))


def test_two_workers_stop_at_the_goal(case: Case, two: list[Rank]) -> None:
    for accuracy in assert_stopped_at(case.goal, two):
        right = accuracy * 364 / 100
        assert right == pytest.approx(round(right), abs=1e-9), "not 364 images, each counted once"


def test_each_rank_records_its_training(case: Case, two: list[Rank]) -> None:
    for rank in two:
        epochs = len(rank.series(names.VAL_ACCURACY))
        assert rank.series(names.EPOCH) == list(range(epochs))
        assert len(rank.series(names.TRAIN_LOSS)) == epochs * _STEPS
        assert rank.series(names.LEARNING_RATE) == [case.rate] * epochs * _STEPS
        assert rank.series(names.SAMPLES)[-1] == epochs * _STEPS * _BATCH / 2
        phases = {
            phase: rank.series(names.phase_metric(phase))[-1]
            for phase in set(names.PHASES) - {"compute", "checkpoint", "restore", "compile"}
        }
        assert all(phases.values())
        training = sum(phases.values()) - phases["evaluation"]
        seconds = rank.series(names.TRAIN_SECONDS)[-1]
        assert training <= seconds
        # The steps of the other task are so short that the time between phases matters.
        if case.task == "digits":
            assert training > 0.8 * seconds, "the phases do not cover the training"
    first, second = (rank.series(names.TRAIN_LOSS) for rank in two)
    assert first != second, "both ranks trained on the same images"


def test_the_settings_describe_the_data(alone: list[Rank]) -> None:
    [settings] = alone[0].stated("settings")
    assert settings.items() >= {"data": "digits", "batch_size": _BATCH, "seed": 0}.items()
    assert (settings["train_samples"], settings["validation_samples"]) == (1433, 364)
    assert settings["data_sha256"] == load_digits().sha256


def test_losses_depend_only_on_the_seed(
    case: Case, two: list[Rank], alone: list[Rank], tmp_path: Path
) -> None:
    again = case.begin(tmp_path / "two", 2) + case.begin(tmp_path / "one", 1)
    assert_same_losses(two + alone, again)
    [other] = case.train(tmp_path / "other", 1, "--epochs=1", "--seed=1")
    assert other.series(names.TRAIN_LOSS) != alone[0].series(names.TRAIN_LOSS)[:_STEPS]


def test_any_number_of_workers_trains_the_same_model(
    case: Case, two: list[Rank], alone: list[Rank], tmp_path: Path
) -> None:
    for ranks in (two, case.begin(tmp_path, 3)):
        same = pytest.approx(batch_losses(alone, _BATCH), rel=case.rounding)
        assert batch_losses(ranks, _BATCH)[: case.epochs * _STEPS] == same
        validated = pytest.approx(alone[0].series(names.VAL_LOSS), rel=case.rounding)
        assert ranks[0].series(names.VAL_LOSS)[: case.epochs] == validated


def test_a_rank_fails_soon_after_its_peer_is_killed(tmp_path: Path) -> None:
    left, killed = start_ranks(tmp_path, 2, *_TASK, "--epochs", "10000", "--goal", "100")
    wait_for(lambda: killed.metrics_file.is_file() and killed.series(names.TRAIN_LOSS))
    killed.kill()
    _, errors = left.output(seconds=15)
    assert left.returncode == 1
    assert "WorldError: rank 0 of 2 lost a peer:" in errors


def test_the_model_has_the_size_of_the_digits_task() -> None:
    model = ResNet8(in_channels=1, classes=10, width=32)
    assert sum(parameter.numel() for parameter in model.parameters()) == 308_074


def test_the_output_for_an_image_does_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    model = ResNet8(in_channels=1, classes=10, width=8)
    images = torch.rand(6, 1, 8, 8)
    apart = torch.cat([model(image[None]) for image in images])
    assert torch.allclose(model(images), apart, atol=1e-5)


def test_the_derivative_matches_the_cross_entropy() -> None:
    torch.manual_seed(0)
    scores, classes = (5 * torch.randn(30, 4)).double().requires_grad_(), torch.arange(30) % 4
    loss = functional.cross_entropy(scores, classes, reduction="sum")
    (expected,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(softmax_derivative(scores.detach(), classes), expected)
