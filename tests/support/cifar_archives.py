"""Archives in CIFAR-10's format."""

import gzip
import io
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlbench_worker.data.cifar10 import ARCHIVE

Bytes = NDArray[np.uint8]


def write_archive(
    folder: Path, train: tuple[Bytes, list[int]], validation: tuple[Bytes, list[int]]
) -> Path:
    """Write byte images ``[n, 3, 32, 32]`` and labels in the layout of the standard archive."""
    images, labels = train
    parts = np.array_split(np.arange(len(labels)), 5)
    batches = {
        f"data_batch_{number}": (images[part], [labels[i] for i in part])
        for number, part in enumerate(parts, start=1)
    } | {"test_batch": validation}
    contents = {
        name: {b"labels": numbers, b"data": pixels.reshape(len(numbers), -1)}
        for name, (pixels, numbers) in batches.items()
    }
    return write_members(
        folder, {name: pickle.dumps(content, protocol=2) for name, content in contents.items()}
    )


def write_members(folder: Path, members: Mapping[str, bytes]) -> Path:
    """Write a reproducible archive: its bytes depend only on the members' contents."""
    path = folder / ARCHIVE
    with gzip.GzipFile(path, "wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def write_colours(folder: Path, train: int, validation: int) -> Path:
    """Write noisy images whose colour is their class, so that a short training suffices."""
    random = np.random.default_rng(0)
    colours = random.integers(256, size=(10, 3, 1, 1))

    def part(count: int) -> tuple[Bytes, list[int]]:
        labels = [number % 10 for number in range(count)]
        noise = random.integers(-40, 40, size=(count, 3, 32, 32))
        return np.clip(colours[labels] + noise, 0, 255).astype(np.uint8), labels

    return write_archive(folder, part(train), part(validation))
