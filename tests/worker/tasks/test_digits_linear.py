"""The linear digits task: reaches its goal, repeats itself, any number of workers does the same."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from mlbench import names
from tests.worker.ranks import Rank, finish, start_ranks
from worker.tasks.digits_linear import softmax_derivative

_TASK = ("-m", "worker.tasks.digits_linear")
_STEPS = 11  # in an epoch


@pytest.fixture(scope="module")
def two_to_the_goal(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    ranks = start_ranks(tmp_path_factory.mktemp("goal"), 2, *_TASK)
    finish(ranks)
    return ranks


@pytest.fixture(scope="module")
def one_to_the_goal(tmp_path_factory: pytest.TempPathFactory) -> Rank:
    ranks = start_ranks(tmp_path_factory.mktemp("alone"), 1, *_TASK)
    finish(ranks)
    return ranks[0]


def test_two_workers_stop_at_the_goal(two_to_the_goal: list[Rank]) -> None:
    first, second = two_to_the_goal
    accuracies = first.series(names.VAL_ACCURACY)
    assert accuracies[-1] >= 93
    assert all(accuracy < 93 for accuracy in accuracies[:-1])
    assert accuracies == second.series(names.VAL_ACCURACY)
    assert first.series(names.VAL_LOSS) == second.series(names.VAL_LOSS)
    for accuracy in accuracies:
        right = accuracy * 364 / 100
        assert right == pytest.approx(round(right), abs=1e-9), "364 images, each counted once"
    for rank in two_to_the_goal:
        assert len(rank.series(names.TRAIN_LOSS)) == len(accuracies) * _STEPS
        assert rank.series(names.SAMPLES)[-1] == len(accuracies) * _STEPS * 64


def test_one_worker_trains_the_same_model(
    two_to_the_goal: list[Rank], one_to_the_goal: Rank
) -> None:
    first, second = (rank.series(names.TRAIN_LOSS) for rank in two_to_the_goal)
    together = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    assert together == pytest.approx(one_to_the_goal.series(names.TRAIN_LOSS), rel=1e-4)
    assert two_to_the_goal[0].series(names.VAL_LOSS) == pytest.approx(
        one_to_the_goal.series(names.VAL_LOSS), rel=1e-4
    )


def test_the_same_seed_gives_the_same_losses_and_another_one_others(
    two_to_the_goal: list[Rank], one_to_the_goal: Rank, tmp_path: Path
) -> None:
    again = start_ranks(tmp_path, 2, *_TASK, "--epochs", "2")
    again += start_ranks(tmp_path, 1, *_TASK, "--epochs", "2")
    finish(again)
    for rank, same in zip([*two_to_the_goal, one_to_the_goal], again, strict=True):
        assert rank.series(names.TRAIN_LOSS)[: 2 * _STEPS] == same.series(names.TRAIN_LOSS)
        assert rank.series(names.VAL_LOSS)[:2] == same.series(names.VAL_LOSS)
    (tmp_path / "other").mkdir()
    others = start_ranks(tmp_path / "other", 1, *_TASK, "--epochs", "1", "--seed", "1")
    finish(others)
    losses = others[0].series(names.TRAIN_LOSS)
    assert losses != one_to_the_goal.series(names.TRAIN_LOSS)[:_STEPS]


def test_it_goes_on_from_a_checkpoint(
    two_to_the_goal: list[Rank], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path / "checkpoints"))
    finish(start_ranks(tmp_path, 2, *_TASK, "--epochs", "2"))
    (tmp_path / "second").mkdir()
    second = start_ranks(tmp_path / "second", 2, *_TASK)
    finish(second)
    for rank, resumed in zip(two_to_the_goal, second, strict=True):
        assert resumed.series(names.VAL_LOSS) == rank.series(names.VAL_LOSS)[2:]


def test_the_derivative_is_that_of_the_cross_entropy() -> None:
    torch.manual_seed(0)
    scores, classes = (5 * torch.randn(30, 4)).double().requires_grad_(), torch.arange(30) % 4
    loss = functional.cross_entropy(scores, classes, reduction="sum")
    (expected,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(softmax_derivative(scores.detach(), classes), expected)
