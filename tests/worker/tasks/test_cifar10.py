"""Task 1a: learns, repeats itself, in every way of exchange, and goes on from a checkpoint."""

import json
from pathlib import Path

import pytest

from mlbench import names
from tests.worker.data.archives import write_colours
from tests.worker.ranks import Rank, finish, finish_with_output, start_ranks
from worker.data.cifar10 import ARCHIVE
from worker.data.download import sha256_of
from worker.tasks.cifar10 import Config
from worker.training import options

_TASK = ("-m", "worker.tasks.cifar10", "--worker-batch-size", "8")
# What two workers run.
_BOTH = ("--version=2", "--depth=32", "--epochs=1", "--learning-rate=0.2")
_TRAIN, _VALIDATION = 96, 21


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets")
    write_colours(folder, _TRAIN, _VALIDATION)
    return folder


@pytest.fixture(autouse=True)
def _datasets_are_here(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_DATASETS, str(datasets))


def run(folder: Path, size: int, *more: str) -> list[Rank]:
    folder.mkdir()
    ranks = start_ranks(folder, size, *_TASK, "--goal=100", *more)
    finish(ranks)
    return ranks


@pytest.fixture(scope="module")
def alone(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> Rank:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_DATASETS, str(datasets))
        (rank,) = run(tmp_path_factory.mktemp("alone") / "run", 1, "--epochs=3")
    return rank


@pytest.fixture(scope="module")
def both(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_DATASETS, str(datasets))
        return run(tmp_path_factory.mktemp("both") / "run", 2, *_BOTH)


def test_the_same_seed_gives_the_same_losses(alone: Rank, both: list[Rank], tmp_path: Path) -> None:
    again = run(tmp_path / "alone", 1, "--epochs=1") + run(tmp_path / "both", 2, *_BOTH)
    for rank, same in zip([alone, *both], again, strict=True):
        losses = same.series(names.TRAIN_LOSS)
        assert rank.series(names.TRAIN_LOSS)[: len(losses)] == losses
        assert rank.series(names.VAL_LOSS)[:1] == same.series(names.VAL_LOSS)[:1]
    assert both[0].series(names.VAL_LOSS) == both[1].series(names.VAL_LOSS)
    assert both[0].series(names.TRAIN_LOSS) != both[1].series(names.TRAIN_LOSS)


def test_two_workers_learn_up_to_the_goal(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, *_TASK, "--epochs=12")
    outputs = finish_with_output(ranks)
    for rank, output in zip(ranks, outputs, strict=True):
        accuracies = rank.series(names.VAL_ACCURACY)
        assert accuracies[-1] >= 80 > max(accuracies[:-1], default=0)
        assert output.splitlines()[-1] == "goal of 80.0 % reached"
        assert rank.series(names.EPOCH) == list(range(len(accuracies)))
        right = accuracies[-1] * _VALIDATION / 100
        assert right == pytest.approx(round(right), abs=1e-9), "each image counts once"


def test_the_learning_rate_is_in_proportion_to_the_images_of_all_workers(both: list[Rank]) -> None:
    assert both[0].series(names.LEARNING_RATE) == [0.2 * 16 / 128] * (_TRAIN // 16)


def test_what_it_runs_with_is_recorded(both: list[Rank], datasets: Path) -> None:
    lines = [json.loads(line) for line in both[0].metrics_file.read_text().splitlines()]
    (settings,) = (line["settings"] for line in lines if "settings" in line)
    assert settings["version"] == 2
    assert settings["depth"] == 32
    assert settings["exchange"] == "ddp"
    assert settings["precision"] == "fp32"
    assert settings["device"] == "cpu"
    assert settings["data_sha256"] == sha256_of(datasets / ARCHIVE)
    assert settings["data_is_standard"] is False
    assert (settings["data"], settings["seed"]) == ("cifar10", 0)
    assert settings["batch_size"] == 2 * settings["worker_batch_size"]
    assert "settings" not in both[1].metrics_file.read_text()


@pytest.mark.parametrize("way", ["flat", "per-layer"])
def test_every_exchange_finds_the_same_losses(way: str, both: list[Rank], tmp_path: Path) -> None:
    ranks = run(tmp_path / "run", 2, *_BOTH, f"--exchange={way}")
    for rank, ddp in zip(ranks, both, strict=True):
        assert rank.series(names.TRAIN_LOSS) == pytest.approx(
            ddp.series(names.TRAIN_LOSS), rel=0.02
        )


def test_bf16_trains_nearly_as_fp32(alone: Rank, tmp_path: Path) -> None:
    (half,) = run(tmp_path / "bf16", 1, "--epochs=1", "--precision=bf16")
    full, rounded = alone.series(names.TRAIN_LOSS)[:3], half.series(names.TRAIN_LOSS)[:3]
    assert full != rounded
    assert rounded == pytest.approx(full, rel=0.1)


def test_it_goes_on_from_a_checkpoint_as_if_nothing_had_been(
    alone: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path / "checkpoints"))
    (before,) = run(tmp_path / "before", 1, "--epochs=2")
    (after,) = run(tmp_path / "after", 1, "--epochs=3")
    assert after.series(names.EPOCH) == [2]
    for metric in (names.TRAIN_LOSS, names.VAL_LOSS, names.LEARNING_RATE):
        assert before.series(metric) + after.series(metric) == alone.series(metric)
    assert after.series(names.SAMPLES)[-1] == alone.series(names.SAMPLES)[-1]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--depth=18", "argument --depth: invalid choice: 18"),
        ("--worker-batch-size=0", "--worker-batch-size must be at least 1"),
        ("--goal=101", "--goal must be from 0 to 100"),
        ("--compression=zip", "argument --compression: invalid choice: 'zip'"),
    ],
)
def test_a_bad_value_is_refused(
    argument: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        options.parse(Config, [argument])
    assert exited.value.code == 2
    assert said in capsys.readouterr().err


def test_a_batch_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    (rank,) = start_ranks(tmp_path, 1, *_TASK, "--worker-batch-size=97")
    _, errors = rank.output()
    assert "DataError: a batch of 97 must hold" in errors
    assert rank.process.returncode == 1
