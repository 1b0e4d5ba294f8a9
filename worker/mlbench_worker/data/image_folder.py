"""Labelled image files in ImageNet's folder layout: ``train/CLASS/*.JPEG``, ``val/CLASS/…``."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError


@dataclass(frozen=True)
class ImageFiles:
    """The image files of one part of a data set, in the same order on every machine."""

    folder: bytes
    names: npt.NDArray[np.bytes_]
    """``CLASS/FILE`` for each file, as one array, which forked processes share."""
    labels: npt.NDArray[np.int64]
    """Number of the class for each file."""

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        return Path(os.fsdecode(os.path.join(self.folder, self.names[index])))  # noqa: PTH118

    def shard(self, world: World) -> "ImageFiles":
        """Return this rank's part. The parts of all ranks together are the whole."""
        part = world.shard(len(self))
        return ImageFiles(self.folder, self.names[part], self.labels[part])


@dataclass(frozen=True)
class ImageFolder:
    """A data set of image files. A class's number is its place among the sorted class names."""

    classes: tuple[str, ...]
    train: ImageFiles
    validation: ImageFiles
    listing_sha256: str
    """SHA-256 of the names of all files, in hexadecimal. Reading all content takes too long."""


def read_image_folder(folder: Path) -> ImageFolder:
    """List the images in ``folder/train`` and ``folder/val``, without opening the files.

    A class is a folder; its images are the files that end in .jpeg, .jpg or .png.

    Raises:
        DataError: a folder is missing, a class has no images, or the two parts differ in classes.
    """
    parts = [folder / "train", folder / "val"]
    for part in parts:
        if not part.is_dir():
            raise DataError(
                f"folder {part} not found. It should have one folder of "
                "image files for each class; to look elsewhere, set MLBENCH_DATASETS"
            )
    classes_of_parts = []
    for part in parts:
        # Names are bytes, so that their order does not depend on a locale.
        with os.scandir(os.fsencode(part)) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        if not names:
            raise DataError(f"{part} has no classes: it should have a folder of images for each")
        classes_of_parts.append(names)
    train, validation = classes_of_parts
    if train != validation:
        raise DataError(
            f"{parts[0]} and {parts[1]} must have the same classes: "
            f"only {_some(set(train) ^ set(validation))} is in one of the two"
        )
    train_files, validation_files = (_list(part, train) for part in parts)
    digest = hashlib.sha256()
    for files in (train_files, validation_files):
        digest.update(b"/".join(files.names.tolist()))
    classes = tuple(map(os.fsdecode, train))
    return ImageFolder(classes, train_files, validation_files, digest.hexdigest())


def check_same_everywhere(data: ImageFolder, world: World) -> None:
    """Raise a DataError if the names of this rank's files differ from those on rank 0."""
    content = bytearray.fromhex(data.listing_sha256)
    digest = torch.frombuffer(content, dtype=torch.int64).to(world.device)
    digest_of_rank_0 = digest.clone()
    world.broadcast_(digest_of_rank_0)
    if not torch.equal(digest, digest_of_rank_0):
        raise DataError(
            f"{world} does not have the files of rank 0 in {os.fsdecode(data.train.folder)} and "
            f"{os.fsdecode(data.validation.folder)}: copy the whole data set to its machine"
        )


def _list(part: Path, classes: Sequence[bytes]) -> ImageFiles:
    folder = os.fsencode(part)
    names: list[bytes] = []
    counts = []
    for name in classes:
        files = sorted(
            file
            for file in os.listdir(os.path.join(folder, name))  # noqa: PTH118, PTH208
            if file.lower().endswith((b".jpeg", b".jpg", b".png"))
        )
        names += [name + b"/" + file for file in files]
        counts.append(len(files))
    if empty := {name for name, count in zip(classes, counts, strict=True) if not count}:
        raise DataError(f"{part} has classes without images (.jpeg, .jpg, .png): {_some(empty)}")
    labels = np.repeat(np.arange(len(classes), dtype=np.int64), counts)
    return ImageFiles(folder, np.array(names), labels)


def _some(classes: set[bytes]) -> str:
    """List the first three classes, and the number of the others."""
    names = ", ".join(os.fsdecode(name) for name in sorted(classes)[:3])
    return f"{names} and {len(classes) - 3} more" if len(classes) > 3 else names
