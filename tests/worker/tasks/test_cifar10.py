"""The CIFAR-10 task (1a): its networks, data and training."""

import hashlib
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from benchmarks.cifar10_from_images import CLASSES, convert
from mlbench.benchmarks.tasks import CifarDepth, CifarVersion
from mlbench.contract import names
from mlbench_worker.data.cifar10 import ARCHIVE, load_cifar10
from mlbench_worker.ranks.rank_process import DataError
from mlbench_worker.tasks.cifar10 import BlockV1, BlockV2, CifarResNet
from tests.support.cifar_archives import write_archive, write_colours, write_members
from tests.support.known import known
from tests.support.ranks import (
    Rank,
    assert_same_losses,
    assert_stopped_at,
    finish,
    run_ranks,
    start_ranks,
)

_TASK = ("-m", "mlbench_worker.tasks.cifar10", "--worker-batch-size=8")
# Options of the runs with two workers.
_BOTH = ("--recipe=mlbench-2020", "--version=2", "--depth=32", "--epochs=1", "--goal=100")
_TRAIN, _VALIDATION = 48, 21


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module", autouse=True)
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The datasets folder, with a small archive."""
    folder = tmp_path_factory.mktemp("datasets")
    write_colours(folder, _TRAIN, _VALIDATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_DATASETS, str(folder))
        yield folder


def run_alone(folder: Path, epochs: int, *more: str) -> Rank:
    return run_ranks(folder, 1, *_TASK, f"--epochs={epochs}", "--goal=100", *more)[0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Rank:
    return run_alone(tmp_path_factory.mktemp("alone"), 3)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    return run_ranks(tmp_path_factory.mktemp("both"), 2, *_TASK, *_BOTH)


def test_the_same_seed_gives_the_same_losses(alone: Rank, both: list[Rank], tmp_path: Path) -> None:
    again = [run_alone(tmp_path / "alone", 1), *run_ranks(tmp_path / "both", 2, *_TASK, *_BOTH)]
    assert_same_losses([alone, *both], again)
    assert both[0].series(names.VAL_LOSS) == both[1].series(names.VAL_LOSS)
    assert both[0].series(names.TRAIN_LOSS) != both[1].series(names.TRAIN_LOSS)


def test_two_workers_train_to_the_goal(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 2, *_TASK, "--epochs=12", "--goal=50")
    outputs = finish(ranks)
    accuracies = assert_stopped_at(50, ranks)
    for rank, output in zip(ranks, outputs, strict=True):
        assert output.splitlines()[-1] == "goal reached: val_global_Prec@1 50"
        assert rank.series(names.EPOCH) == list(range(len(accuracies)))
        right = accuracies[-1] * _VALIDATION / 100
        assert right == pytest.approx(round(right), abs=1e-9), "images were counted more than once"


def test_the_settings_are_recorded(both: list[Rank], datasets: Path) -> None:
    [settings] = both[0].stated("settings")
    sha256 = sha256_of((datasets / ARCHIVE).read_bytes())
    data = {"data": "cifar10", "data_sha256": sha256, "data_is_standard": False}
    chosen = {"version": 2, "depth": 32, "exchange": "ddp", "precision": "fp32", "seed": 0}
    chosen |= {"recipe": "mlbench-2020", "learning_rate": 0.02}
    assert set(both[0].series(names.LEARNING_RATE)) == {0.02 * 8 / 128}
    assert settings.items() >= {**data, **chosen, "device": "cpu", "batch_size": 16}.items()
    assert "settings" not in both[1].metrics_file.read_text()


def test_bf16_trains_nearly_as_fp32(alone: Rank, tmp_path: Path) -> None:
    half = run_alone(tmp_path, 1, "--precision=bf16")
    full, rounded = alone.series(names.TRAIN_LOSS)[:3], half.series(names.TRAIN_LOSS)[:3]
    assert full != rounded
    assert rounded == pytest.approx(full, rel=0.1)


def test_a_resumed_training_equals_an_uninterrupted_one(
    alone: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_CHECKPOINTS, str(tmp_path / "checkpoints"))
    before = run_alone(tmp_path / "before", 2)
    after = run_alone(tmp_path / "after", 3)
    assert after.series(names.EPOCH) == [2]
    for metric in (names.TRAIN_LOSS, names.VAL_LOSS, names.LEARNING_RATE):
        assert before.series(metric) + after.series(metric) == alone.series(metric)
    assert after.series(names.SAMPLES)[-1] == alone.series(names.SAMPLES)[-1]


# He et al. 2015, table 6: 0.27, 0.46, 0.66 and 0.85 million parameters.
@pytest.mark.parametrize(
    ("depth", "parameters"), [(20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018)]
)
@pytest.mark.parametrize("version", get_args(CifarVersion))
def test_sizes_are_those_of_the_paper(
    version: CifarVersion, depth: CifarDepth, parameters: int
) -> None:
    model = CifarResNet(depth, version)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == depth
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == depth - 1, "not one norm per convolution"


@pytest.mark.parametrize("version", get_args(CifarVersion))
def test_it_halves_twice_and_classifies(version: CifarVersion) -> None:
    model = CifarResNet(20, version, classes=7)
    shapes = []
    for stage in model.stages:
        stage.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[1:])))
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 7)
    assert shapes == [(16, 32, 32)] * 3 + [(32, 16, 16)] * 3 + [(64, 8, 8)] * 3


def test_blocks_match_the_figures_of_the_papers() -> None:
    torch.manual_seed(0)
    x, one, two = torch.randn(2, 16, 8, 8), BlockV1(16, 16), BlockV2(16, 16)
    inner = functional.relu(one.norm1(one.conv1(x)))
    assert torch.equal(one(x), functional.relu(one.norm2(one.conv2(inner)) + x))
    inner = two.conv1(functional.relu(known(two.norm1)(x)))
    assert torch.equal(two(x), x + two.conv2(functional.relu(two.norm2(inner))))


@pytest.mark.parametrize("kind", [BlockV1, BlockV2])
def test_the_shortcut_subsamples_and_pads_with_zeros(kind: type[BlockV1 | BlockV2]) -> None:
    block, x = kind(16, 32), torch.rand(2, 16, 8, 8)
    with torch.no_grad():
        block.conv2.weight.zero_()  # leaves only the shortcut
    out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


@pytest.mark.parametrize("version", get_args(CifarVersion))
def test_in_place_operations_do_not_change_gradients(
    version: CifarVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.rand(3, 3, 8, 8)

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = CifarResNet(20, version)
        return list(torch.autograd.grad(model(images).square().sum(), list(model.parameters())))

    in_place = gradients()
    monkeypatch.setattr(functional, "relu_", functional.relu)
    assert all(map(torch.equal, in_place, gradients()))


def test_images_are_read_in_order_with_their_colours(tmp_path: Path) -> None:
    images = np.zeros((10, 3, 32, 32), dtype=np.uint8)
    images[:, 0] = np.arange(10)[:, None, None]  # the red value is the number of the image
    images[:, 1, 5, 7] = 200  # row 5, column 7, green
    labels = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    archive = write_archive(tmp_path, (images, labels), (images[:3], labels[:3]))
    data = load_cifar10(tmp_path)
    assert torch.equal(data.train.images, torch.from_numpy(images))
    assert data.train.labels.tolist() == labels
    assert torch.equal(data.validation.images, torch.from_numpy(images[:3]))
    assert data.validation.labels.tolist() == labels[:3]
    assert data.sha256 == sha256_of(archive.read_bytes())


def test_the_arrays_are_kept_until_the_archive_changes(tmp_path: Path) -> None:
    archive, kept = write_colours(tmp_path, 40, 10), tmp_path / f"{ARCHIVE}.parsed.npz"
    status, parsed = archive.stat(), load_cifar10(tmp_path)
    archive.write_bytes(bytes(status.st_size))  # the archive must not be read again
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    again = load_cifar10(tmp_path)
    assert (again.sha256, again.train.mean) == (parsed.sha256, parsed.train.mean)
    assert again.train.deviation == again.validation.deviation == parsed.train.deviation
    for split, other in ((parsed.train, again.train), (parsed.validation, again.validation)):
        assert torch.equal(split.images, other.images)
        assert torch.equal(split.labels, other.labels)
    archive = write_colours(tmp_path, 30, 10)
    for damaged in (kept.read_bytes()[:-100], b"", kept.read_bytes().replace(b"\x80", b"\x81")):
        kept.write_bytes(damaged)
        assert len(load_cifar10(tmp_path).train) == 30


def test_image_files_are_converted_with_their_classes(tmp_path: Path) -> None:
    for part, count in (("train", 2), ("test", 1)):
        for label, name in enumerate(CLASSES):
            (folder := tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.full((32, 32, 3), (label, number, 200), np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    datasets = [tmp_path / "first", tmp_path / "again"]
    sha256, same = (sha256_of(convert(tmp_path, folder).read_bytes()) for folder in datasets)
    assert sha256 == same
    data = load_cifar10(datasets[0])
    for split in (data.train, data.validation):
        images, labels = split.images, split.labels.tolist()
        assert images[:, 0, 0, 0].tolist() == labels != sorted(labels), (
            "the images are not shuffled"
        )
        assert (images[:, 2] == 200).all()
        assert len(set(map(tuple, images[:, :2, 0, 0].tolist()))) == len(images)


def test_colours_are_normalized_by_the_training_images(datasets: Path) -> None:
    data = load_cifar10(datasets)
    (train,), (validation,) = data.train.batches(_TRAIN), data.validation.batches(_VALIDATION)
    for values in train.images.unbind(1):
        assert values.mean().item() == pytest.approx(0, abs=1e-4)
        assert values.std(correction=0).item() == pytest.approx(1, abs=1e-4)
    again = validation.images[:, 1] * data.train.deviation[1] + data.train.mean[1]
    assert torch.allclose(again, data.validation.images[:, 1].float(), atol=1e-3)


class _Command:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (pickle.dumps(_Command()), "unexpected object in the archive: posix.system"),
        (b"no pickle", "is not in CIFAR-10's form"),
        (pickle.dumps({b"labels": [1]}), "is not in CIFAR-10's form: b'data'"),
        (
            pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}),
            "data_batch_1 has no label from 0 to 9 for each image",
        ),
        (
            pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}),
            "data_batch_1 has no label from 0 to 9 for each image",
        ),
        (
            pickle.dumps({b"data": np.zeros((1, 100), np.uint8), b"labels": [1]}),
            "is not in CIFAR-10's form: cannot reshape",
        ),
    ],
    ids=["code", "bytes", "no data", "too few labels", "label 10", "small images"],
)
def test_an_archive_in_another_format_is_refused(batch: bytes, said: str, tmp_path: Path) -> None:
    write_members(tmp_path, {"data_batch_1": batch})
    with pytest.raises(DataError, match=said):
        load_cifar10(tmp_path)


def test_a_truncated_archive_is_refused(datasets: Path, tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes((datasets / ARCHIVE).read_bytes()[:20_000])
    with pytest.raises(DataError, match="cannot be read"):
        load_cifar10(tmp_path)


def test_a_missing_archive_is_downloaded_once_for_all_ranks(
    datasets: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    published = datasets / ARCHIVE
    sha256 = sha256_of(published.read_bytes())
    monkeypatch.setattr("mlbench_worker.data.cifar10._URL", published.as_uri())
    monkeypatch.setattr("mlbench_worker.data.cifar10.CIFAR10_SHA256", sha256)
    folder = tmp_path / "new"
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: load_cifar10(folder), range(4)))
    assert {data.sha256 for data in loaded} == {sha256}
    assert capsys.readouterr().out.count("downloading") == 1
    kept = f"{ARCHIVE}.parsed.npz"
    assert {left.name for left in folder.iterdir()} == {ARCHIVE, f"{ARCHIVE}.lock", kept}


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"cut", "what .* answered is not .*: its SHA-256 is .*; put the")],
)
def test_a_failed_download_shows_where_to_put_the_archive(
    content: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, folder = tmp_path / "published", tmp_path / "new"
    if content is not None:
        published.write_bytes(content)
    monkeypatch.setattr("mlbench_worker.data.cifar10._URL", published.as_uri())
    with pytest.raises(DataError, match=reason) as raised:
        load_cifar10(folder)
    assert str(folder / ARCHIVE) in str(raised.value)
    assert not (folder / ARCHIVE).exists()
