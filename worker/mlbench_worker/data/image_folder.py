"""Labelled image files in folders, as ImageNet is laid out: ``train/CLASS/*.JPEG``, ``val/…``."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.process import DataError

_SUFFIXES = (b".jpeg", b".jpg", b".png")
# Classes that an error names.
_NAMED = 3


@dataclass(frozen=True)
class ImageFiles:
    """The image files of one part of a data set, in an order that is the same on every machine."""

    folder: bytes
    names: npt.NDArray[np.bytes_]
    """Of each file ``CLASS/FILE``. A million of them are one array, which processes share."""
    labels: npt.NDArray[np.int64]
    """Of each file the number of its class."""

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> Path:
        """Return a file's path."""
        return Path(os.fsdecode(os.path.join(self.folder, self.names[index])))  # noqa: PTH118

    def shard(self, world: World) -> "ImageFiles":
        """Return this rank's part; together the ranks' parts are the whole."""
        mine = world.shard(len(self))
        return ImageFiles(self.folder, self.names[mine], self.labels[mine])


@dataclass(frozen=True)
class ImageFolder:
    """A data set of image files. A class's number is its place among the sorted class names."""

    classes: tuple[str, ...]
    train: ImageFiles
    validation: ImageFiles
    listing_sha256: str
    """Of the names of all files, in hexadecimal: their content would take too long to read."""


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
                f"the images are missing: there is no folder {part}. It should have one folder of "
                "image files for each class; to look elsewhere, set MLBENCH_DATASETS"
            )
    train, validation = map(_classes, parts)
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
    """Raise a DataError if this rank's files have other names than those of rank 0."""
    digest = bytearray.fromhex(data.listing_sha256)
    mine = torch.frombuffer(digest, dtype=torch.int64).to(world.device)
    rank_0 = mine.clone()
    world.broadcast_(rank_0)
    if not torch.equal(mine, rank_0):
        raise DataError(
            f"{world} does not have the files of rank 0 in {os.fsdecode(data.train.folder)} and "
            f"{os.fsdecode(data.validation.folder)}: copy the whole data set to its machine"
        )


def _classes(part: Path) -> list[bytes]:
    # As bytes, so that their order depends on no locale.
    with os.scandir(os.fsencode(part)) as entries:
        found = sorted(entry.name for entry in entries if entry.is_dir())
    if not found:
        raise DataError(f"{part} has no classes: it should have a folder of images for each")
    return found


def _list(part: Path, classes: Sequence[bytes]) -> ImageFiles:
    folder = os.fsencode(part)
    names: list[bytes] = []
    counts = []
    for name in classes:
        files = sorted(
            file
            for file in os.listdir(os.path.join(folder, name))  # noqa: PTH118, PTH208
            if file.lower().endswith(_SUFFIXES)
        )
        names += [name + b"/" + file for file in files]
        counts.append(len(files))
    if empty := {name for name, count in zip(classes, counts, strict=True) if not count}:
        raise DataError(f"{part} has classes without images (.jpeg, .jpg, .png): {_some(empty)}")
    labels = np.repeat(np.arange(len(classes), dtype=np.int64), counts)
    return ImageFiles(folder, np.array(names), labels)


def _some(classes: set[bytes]) -> str:
    named = ", ".join(os.fsdecode(name) for name in sorted(classes)[:_NAMED])
    others = len(classes) - _NAMED
    return f"{named} and {others} more" if others > 0 else named
