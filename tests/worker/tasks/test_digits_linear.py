"""The linear digits task: reaches its goal, repeats itself, any number of workers does the same."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from mlbench import names
from mlbench_worker.tasks.digits_linear import softmax_derivative
from tests.support.ranks import Rank, assert_same_losses, assert_stopped_at, run_ranks

_TASK = ("-m", "mlbench_worker.tasks.digits_linear")
_STEPS = 11  # in an epoch


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two workers that train to the goal."""
    return run_ranks(tmp_path_factory.mktemp("two"), 2, *_TASK)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Rank:
    """A worker that trains to the goal."""
    return run_ranks(tmp_path_factory.mktemp("one"), 1, *_TASK)[0]


def test_two_workers_stop_at_the_goal(two: list[Rank]) -> None:
    accuracies = assert_stopped_at(93, two)
    for accuracy in accuracies:
        right = accuracy * 364 / 100
        assert right == pytest.approx(round(right), abs=1e-9), "364 images, each counted once"
    for rank in two:
        assert len(rank.series(names.TRAIN_LOSS)) == len(accuracies) * _STEPS
        assert rank.series(names.SAMPLES)[-1] == len(accuracies) * _STEPS * 64


def test_one_worker_trains_the_same_model(two: list[Rank], one: Rank) -> None:
    first, second = (rank.series(names.TRAIN_LOSS) for rank in two)
    together = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    assert together == pytest.approx(one.series(names.TRAIN_LOSS), rel=1e-4)
    assert two[0].series(names.VAL_LOSS) == pytest.approx(one.series(names.VAL_LOSS), rel=1e-4)


def test_the_same_seed_gives_the_same_losses_and_another_one_others(
    two: list[Rank], one: Rank, tmp_path: Path
) -> None:
    again = run_ranks(tmp_path / "two", 2, *_TASK, "--epochs=2")
    again += run_ranks(tmp_path / "one", 1, *_TASK, "--epochs=2")
    assert_same_losses([*two, one], again)
    [other] = run_ranks(tmp_path / "other", 1, *_TASK, "--epochs=1", "--seed=1")
    assert other.series(names.TRAIN_LOSS) != one.series(names.TRAIN_LOSS)[:_STEPS]


def test_the_derivative_is_that_of_the_cross_entropy() -> None:
    torch.manual_seed(0)
    scores, classes = (5 * torch.randn(30, 4)).double().requires_grad_(), torch.arange(30) % 4
    loss = functional.cross_entropy(scores, classes, reduction="sum")
    (expected,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(softmax_derivative(scores.detach(), classes), expected)
