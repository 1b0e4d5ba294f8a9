"""The linear task: its training, losses and scores."""

import hashlib
import math
from pathlib import Path

import pytest
import torch

from benchmarks.loops import session
from mlbench import Tracker
from mlbench.benchmarks.tasks import LinearModel, LinearOptions
from mlbench.contract import names
from mlbench_worker.data.libsvm.dataset import load_dataset
from mlbench_worker.data.libsvm.row_blocks import DenseRows
from mlbench_worker.ranks.distributed import World
from mlbench_worker.tasks.linear import LOSSES, Fit, Loss, Training
from tests.support.libsvm_files import make, make_regression
from tests.support.ranks import (
    Rank,
    assert_same_losses,
    assert_stopped_at,
    batch_losses,
    run_ranks,
    start_ranks,
)

_TASK = ("-m", "mlbench_worker.tasks.linear", "--dataset", "made", "--batch-size=50")
_STEPS = 20  # steps per epoch
_RECORDED = 10  # number of steps averaged in a recorded loss


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dense, a sparse and a regression data set."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    (folder / "made").write_bytes(make(1000, 20).text())
    (folder / "made.t").write_bytes(make(300, 20, seed=1).text(("-1", "+1")))
    (folder / "sparse").write_bytes(make(1000, 40, density=0.2).text(("0", "1")))
    (folder / "regression").write_bytes(make_regression(1250, 20).text())
    monkeypatch.setenv(names.ENV_DATASETS, str(folder))
    return folder


def train(folder: Path, size: int, *arguments: str) -> list[Rank]:
    return run_ranks(folder, size, *_TASK, f"--record-every={_RECORDED}", *arguments)


@pytest.mark.parametrize(
    ("model", "dataset", "size"),
    [("logistic", "made", 1), ("logistic", "sparse", 2), ("svm", "made", 2)],
)
def test_the_goal_is_reached(
    tmp_path: Path, made: Path, model: str, dataset: str, size: int
) -> None:
    ranks = train(tmp_path / "goal", size, "--model", model, "--dataset", dataset)
    assert_stopped_at(89, ranks)
    (goal,) = ranks[0].stated("goal")
    assert goal == {"metric": "val_global_Prec@1", "value": 89.0, "lower_is_better": False}
    files = [made / "made", made / "made.t"] if dataset == "made" else [made / dataset]
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    expected = {"model": model, "dataset": dataset, "l2": 1e-6, "batch_size": 50, "seed": 0}
    expected |= {"data": dataset, "data_sha256": ",".join(sums)}
    (settings,) = ranks[0].stated("settings")
    assert settings.items() >= expected.items()


def test_ridge_explains_the_variance_without_the_noise(tmp_path: Path) -> None:
    (rank,) = train(
        tmp_path / "ridge", 1, *("--model", "ridge", "--dataset", "regression", "--epochs", "8")
    )
    assert len(rank.series("val_global_R2")) == 8, "the training ended early"
    # The targets have a variance of about 1, and the noise has a hundredth of it.
    for metric in ("val_global_R2", "train_R2"):
        assert rank.series(metric)[-1] == pytest.approx(0.99, abs=0.005)
    assert rank.series(names.TRAIN_LOSS)[-1] < rank.series(names.TRAIN_LOSS)[0] / 2
    assert rank.series(names.VAL_ACCURACY) == []
    assert rank.stated("goal") == []
    (settings,) = rank.stated("settings")
    assert settings["goal"] is None


def test_the_model_depends_on_the_seed_and_not_on_the_number_of_workers(tmp_path: Path) -> None:
    epochs = ("--epochs", "2", "--goal", "100")
    alone = train(tmp_path / "one", 1, *epochs)
    two = train(tmp_path / "two", 2, *epochs)
    three = train(tmp_path / "three", 3, *epochs)
    losses = batch_losses(alone, 50)
    assert len(losses) == 2 * _STEPS / _RECORDED
    for ranks, shares in ((two, [25, 25]), (three, [16, 17, 17])):
        assert batch_losses(ranks, 50) == pytest.approx(losses, rel=1e-4)
        assert ranks[0].series(names.VAL_LOSS) == pytest.approx(
            alone[0].series(names.VAL_LOSS), rel=1e-4
        )
        counted = [rank.series(names.SAMPLES)[-1] for rank in ranks]
        assert counted == [2 * _STEPS * share for share in shares]
    for ranks, name in ((alone, "one again"), (two, "two again")):
        assert_same_losses(ranks, train(tmp_path / name, len(ranks), *epochs))
    (other,) = train(tmp_path / "other", 1, *epochs, "--seed", "1")
    assert other.series(names.TRAIN_LOSS) != alone[0].series(names.TRAIN_LOSS)


def test_the_last_record_is_shorter_and_the_rate_falls(tmp_path: Path) -> None:
    (rank,) = train(
        tmp_path / "rate", 1, "--epochs", "1", "--record-every", "8", "--learning-rate", "1"
    )
    rates = rank.series(names.LEARNING_RATE)
    steps = [8, 16, 20]  # a record every 8 steps, and one for the rest of the epoch
    assert len(rank.series(names.TRAIN_LOSS)) == len(steps)
    # Rows have length 1, and the logistic loss is 0.25-smooth.
    assert rates == pytest.approx(
        [4 / (1 + (step - 1) / _STEPS) ** 0.5 for step in steps], rel=1e-4
    )


def test_it_resumes_from_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = ("--momentum", "0.9", "--goal", "100", "--epochs")
    whole = train(tmp_path / "whole", 2, *epochs, "4")
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path / "checkpoints"))
    train(tmp_path / "first", 2, *epochs, "2")
    second = train(tmp_path / "second", 2, *epochs, "4")
    for rank, resumed in zip(whole, second, strict=True):
        assert resumed.series(names.VAL_LOSS) == rank.series(names.VAL_LOSS)[2:]
        assert resumed.series(names.SAMPLES)[-1] == rank.series(names.SAMPLES)[-1]


def test_momentum_follows_nesterov(made: Path) -> None:
    data = load_dataset("made", made, classes=True)
    config = LinearOptions(batch_size=1000, learning_rate=2.0, decay=0.0, momentum=0.9, l2=0.01)
    weights, expected, velocity = torch.zeros(20), torch.zeros(20), torch.zeros(20)
    alone = session(config, Tracker({}))
    training = Training(config, data, weights, alone)
    rate = 2.0 / (0.25 * data.largest_norm2 + 0.01)
    assert isinstance(data.train.rows, DenseRows)
    for epoch in range(5):
        training.epoch(epoch)
        alone.progress.end_epoch()
        expected.requires_grad_()
        losses = LOGISTIC.value(data.train.rows.values @ expected, data.train.targets)
        objective = losses.mean() + 0.01 / 2 * expected.square().sum()
        [slope] = torch.autograd.grad(objective, [expected])
        velocity = 0.9 * velocity + slope
        expected = expected.detach() - rate * (slope + 0.9 * velocity)
    assert weights.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", LOSSES)
def test_the_optimum_matches_scikit_learn(model: LinearModel, made: Path) -> None:
    # Imported here because scikit-learn takes a second to import, and `make quick` skips this test.
    from sklearn.datasets import dump_svmlight_file, load_breast_cancer  # noqa: PLC0415

    from benchmarks.linear_optimum import ours_and_the_optimum  # noqa: PLC0415

    values, classes = load_breast_cancer(return_X_y=True)
    rows = (values - values.mean(axis=0)) / values.std(axis=0)
    dump_svmlight_file(rows, classes, str(made / "cancer"), zero_based=False)
    data = load_dataset("cancer", made, classes=model != "ridge")
    ours, optimum = ours_and_the_optimum(model, data, {})
    assert abs(ours - optimum) < 1e-6
    stopped, _ = ours_and_the_optimum(model, data, {"epochs": "20"})
    assert stopped > optimum + 1e-6, "20 epochs already reach the optimum"


def test_the_deadline_ends_the_training_after_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_DEADLINE, "1")
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path / "checkpoints"))
    for rank in train(tmp_path / "late", 2):
        assert rank.series(names.SAMPLES)[-1] == 25, "it did not end after one step"
        assert len(rank.series(names.TRAIN_LOSS)) == len(rank.series(names.VAL_ACCURACY)) == 1
    assert not list((tmp_path / "checkpoints").iterdir()), "an incomplete epoch was saved"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dataset", "unknown"), "data set unknown: no file unknown (or with .xz, .bz2, .gz) in"),
        (("--dataset", "regression"), "DataError: data set regression: a classification needs"),
        (("--batch-size", "1001"), "DataError: --batch-size must be at least 1"),
    ],
)
def test_invalid_data_or_options_are_reported(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (rank,) = start_ranks(tmp_path, 1, *_TASK, *arguments)
    _, errors = rank.output()
    assert rank.returncode == 1
    assert said in errors


LOGISTIC, SQUARED = LOSSES["logistic"], LOSSES["ridge"]


def doubles(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_derivative_and_smoothness_match_the_loss(loss: Loss) -> None:
    scores = torch.cat([3 * doubles(50, seed=0), torch.tensor([0.0, 60.0, -60.0])]).requires_grad_()
    targets = doubles(53, seed=1).sign()
    (expected,) = torch.autograd.grad(loss.value(scores, targets).sum(), scores)
    torch.testing.assert_close(loss.derivative(scores.detach(), targets), expected)
    line = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    second = loss.derivative(line, torch.ones_like(line)).diff() / line.diff()
    assert second.max().item() == pytest.approx(loss.smoothness, rel=1e-3)


_SCORES = torch.tensor([2.0, -1.0, 0.0, 3.0])
_CLASSES = torch.tensor([1.0, 1.0, 1.0, -1.0])


def test_the_fit_of_a_classification_is_the_sum_of_its_parts() -> None:
    fit = Fit.of(LOGISTIC, _SCORES, _CLASSES)
    losses = [math.log1p(math.exp(-margin)) for margin in (2, -1, 0, -3)]
    assert fit.loss == pytest.approx(sum(losses) / 4)
    assert fit.accuracy == 25, "a score of 0 counts as correct"
    parts = Fit() + Fit.of(LOGISTIC, _SCORES[:1], _CLASSES[:1])
    parts += Fit.of(LOGISTIC, _SCORES[1:], _CLASSES[1:])
    assert (parts.loss, parts.accuracy) == pytest.approx((fit.loss, fit.accuracy))
    assert fit.over(World()) == fit


def test_the_fit_of_a_regression_is_the_explained_variance() -> None:
    targets = torch.tensor([2.5, -1.0, 0.5, 2.0])
    residual = (_SCORES - targets).square().sum().item()
    variation = (targets - targets.mean()).square().sum().item()
    assert Fit.of(SQUARED, _SCORES, targets).r2 == pytest.approx(1 - residual / variation)
    assert Fit.of(SQUARED, targets, targets).r2 == 1
    assert math.isnan(Fit.of(SQUARED, _SCORES, torch.ones(4)).r2)
