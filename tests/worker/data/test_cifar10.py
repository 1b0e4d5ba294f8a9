"""The real loader, on small archives in the same form; what is something else is refused."""

import io
import os
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.worker.data.archives import write_archive, write_colours
from worker.data.cifar10 import ARCHIVE, load_cifar10
from worker.data.download import sha256_of
from worker.data.folder import DataError


def test_images_are_read_in_order_with_their_colours(tmp_path: Path) -> None:
    images = np.zeros((10, 3, 32, 32), dtype=np.uint8)
    images[:, 0] = np.arange(10)[:, None, None]  # red says which image
    images[:, 1, 5, 7] = 200  # row 5, column 7, green
    labels = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    archive = write_archive(tmp_path, (images, labels), (images[:3], labels[:3]))
    data = load_cifar10(tmp_path)
    assert torch.equal(data.train.images, torch.from_numpy(images))
    assert data.train.labels.tolist() == labels
    assert torch.equal(data.validation.images, torch.from_numpy(images[:3]))
    assert data.validation.labels.tolist() == labels[:3]
    assert data.sha256 == sha256_of(archive)
    assert not data.is_standard


def test_colours_are_normalized_by_the_training_images(tmp_path: Path) -> None:
    write_colours(tmp_path, train=50, validation=20)
    data = load_cifar10(tmp_path)
    (train,) = data.train.batches(50)
    for colour in range(3):
        values = train.images[:, colour]
        assert values.mean().item() == pytest.approx(0, abs=1e-4)
        assert values.std(correction=0).item() == pytest.approx(1, abs=1e-4)
    (validation,) = data.validation.batches(20)
    again = validation.images[:, 1] * data.train.deviation[1] + data.train.mean[1]
    assert torch.allclose(again, data.validation.images[:, 1].float(), atol=1e-3)


def test_an_archive_that_is_not_there_names_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.data.cifar10._URL", "http://127.0.0.1:1/archive")
    with pytest.raises(DataError, match=f"there is no {tmp_path}/{ARCHIVE}, and it could not be"):
        load_cifar10(tmp_path)


def _write(folder: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(folder / ARCHIVE, "w:gz") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


class _Command:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (pickle.dumps(_Command()), "posix.system does not belong into it"),
        (b"no pickle", "is not in CIFAR-10's form"),
        (pickle.dumps([1, 2]), "is not in CIFAR-10's form"),
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
    ids=["code", "bytes", "list", "no data", "too few labels", "label 10", "small images"],
)
def test_what_is_not_cifar10_is_refused(batch: bytes, said: str, tmp_path: Path) -> None:
    _write(tmp_path, {"data_batch_1": batch})
    with pytest.raises(DataError, match=said):
        load_cifar10(tmp_path)


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    _write(tmp_path, {})
    with pytest.raises(DataError, match="data_batch_1"):
        load_cifar10(tmp_path)


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    path = write_colours(tmp_path, train=50, validation=20)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(DataError, match="cannot be read"):
        load_cifar10(tmp_path)
