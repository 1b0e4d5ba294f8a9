"""The ImageNet task: learns, repeats itself, resumes, and lets weights alone decay."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

from mlbench import names
from tests.worker.data.image_files import make_image_folder
from tests.worker.ranks import Rank, finish, start_ranks
from worker.models.resnet50 import ResNet50
from worker.tasks.imagenet import Config, decay_weights_only
from worker.training import options

_RATE = 0.3
_TASK = (
    *("-m", "worker.tasks.imagenet"),
    *("--image-size=32", "--worker-batch-size=8", f"--learning-rate={_RATE}"),
)
_IMAGES = 24  # of each of two classes, in each part
_STEPS = 3  # of an epoch on two workers


@pytest.fixture(scope="module", autouse=True)
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Images whose classes can be told apart."""
    folder = tmp_path_factory.mktemp("datasets")
    make_image_folder(folder / "imagenet", _IMAGES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_DATASETS, str(folder))
        yield


@pytest.fixture
def noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images whose classes cannot be told apart, so that no goal ends the training."""
    make_image_folder(tmp_path / "imagenet", _IMAGES // 2, colours={"a": 0, "b": 0})
    monkeypatch.setenv(names.ENV_DATASETS, str(tmp_path))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two workers, each with a loading process, that train to the goal."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "counters").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_MULTIPROC_DIR, str(folder / "counters"))
        patch.setenv(names.ENV_RUN_ID, "1")
        ranks = start_ranks(folder, 2, *_TASK, "--goal=95", "--epochs=9", "--loaders=1")
    finish(ranks)
    return ranks


def test_two_workers_learn_and_stop_at_the_goal(two: list[Rank]) -> None:
    first, second = two
    accuracies = first.series(names.VAL_ACCURACY)
    assert accuracies[-1] >= 95
    assert all(accuracy < 95 for accuracy in accuracies[:-1])
    for metric in (names.VAL_ACCURACY, names.VAL_ACCURACY5, names.VAL_LOSS):
        assert first.series(metric) == second.series(metric)
    # One of two classes is always among the five likeliest.
    assert first.series(names.VAL_ACCURACY5) == [100.0] * len(accuracies)
    for rank in two:
        assert len(rank.series(names.TRAIN_LOSS)) == _STEPS * len(accuracies)
        # 16 images in a step, of the 256 that the rate is given for.
        assert set(rank.series(names.LEARNING_RATE)) == {_RATE * 16 / 256}
    assert first.series(names.TRAIN_LOSS) != second.series(names.TRAIN_LOSS)


def test_the_settings_tell_how_much_data_there_was(two: list[Rank]) -> None:
    lines = map(json.loads, two[0].metrics_file.read_text().splitlines())
    [settings] = [line["settings"] for line in lines if "settings" in line]
    assert (settings["train_images"], settings["validation_images"], settings["classes"]) == (
        2 * _IMAGES,
        2 * _IMAGES,
        2,
    )
    assert (settings["worker_batch_size"], settings["batch_size"]) == (8, 16)
    assert (settings["data"], settings["seed"]) == ("imagenet", 0)
    assert len(settings["data_sha256"]) == 64


def test_loading_processes_count_nothing(two: list[Rank]) -> None:
    counted = {path.name for path in (two[0].metrics_file.parent / "counters").glob("*.db")}
    pids = {rank.process.pid for rank in two}
    assert counted == {
        f"{kind}_{pid}.db" for kind in ("counter", "gauge_max", "histogram") for pid in pids
    }


def test_the_same_seed_gives_the_same_losses(two: list[Rank], tmp_path: Path) -> None:
    again = start_ranks(tmp_path, 2, *_TASK, "--epochs=1", "--loaders=0", "--goal=95")
    finish(again)
    for rank, same in zip(two, again, strict=True):
        assert rank.series(names.TRAIN_LOSS)[:_STEPS] == same.series(names.TRAIN_LOSS)
        assert rank.series(names.VAL_LOSS)[:1] == same.series(names.VAL_LOSS)


@pytest.mark.usefixtures("noise")
def test_after_the_deadline_it_evaluates_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though images of the epoch have been loaded already."""
    monkeypatch.setenv(names.ENV_DEADLINE, "1")
    ranks = start_ranks(tmp_path, 1, *_TASK, "--loaders=1")
    finish(ranks)
    assert len(ranks[0].series(names.TRAIN_LOSS)) == 1
    assert len(ranks[0].series(names.VAL_ACCURACY)) == 1


@pytest.mark.usefixtures("noise")
def test_it_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = tmp_path / "checkpoints"
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(checkpoints))

    def train() -> list[float]:
        ranks = start_ranks(tmp_path, 1, *_TASK, "--epochs=2", "--loaders=1")
        finish(ranks)
        return ranks[0].series(names.TRAIN_LOSS)

    losses = train()
    _, after_second_epoch = sorted(checkpoints.iterdir())
    after_second_epoch.unlink()
    # Both record into the same file.
    assert train() == losses + losses[_STEPS:]


def test_without_images_it_says_where_they_should_be(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *_TASK],
        env=os.environ | {names.ENV_DATASETS: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"DataError: the images are missing: there is no folder {tmp_path}" in done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [("--image-size", "31"), ("--loaders", "-1"), ("--momentum", "0"), ("--goal", "101")],
)
def test_a_bad_value_is_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        options.parse(Config, [f"{option}={value}"])
    assert exited.value.code == 2
    assert f"{option} must be" in capsys.readouterr().err


# --- The algorithm of the paper. ---


def test_weights_decay_but_no_bias_and_no_norm() -> None:
    model = ResNet50(classes=3)
    decaying, constant = decay_weights_only(model, 1e-4)
    assert (decaying["weight_decay"], constant["weight_decay"]) == (1e-4, 0.0)
    weights = {
        id(module.weight) for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)
    }
    every = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in decaying["params"]} == weights
    assert {id(parameter) for parameter in constant["params"]} == every - weights
