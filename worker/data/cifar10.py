"""CIFAR-10: 60,000 real images of 32x32 pixels in ten classes, from its standard archive.

Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009. The archive is
``cifar-10-python.tar.gz`` in $MLBENCH_DATASETS; where it is missing, it is downloaded.
"""

import io
import pickle
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from worker.data.download import ensure_file, sha256_of
from worker.data.folder import DataError
from worker.data.images import Images

CLASSES = 10
ARCHIVE = "cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
_URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
_FOLDER = "cifar-10-batches-py"
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_VALIDATION = ("test_batch",)
_SHAPE = (3, 32, 32)


@dataclass(frozen=True)
class Cifar10:
    """The two parts that the archive has: byte images ``[n, 3, 32, 32]``, red, green, blue.

    Taken out, they are normalized by mean and deviation of each colour over the training images.
    """

    train: Images
    """50,000 of them."""
    validation: Images
    """10,000: what the archive calls the test batch."""
    sha256: str
    """Of the archive."""

    @property
    def is_standard(self) -> bool:
        """Whether it is the archive that everyone compares on."""
        return self.sha256 == SHA256


def load_cifar10(datasets: Path) -> Cifar10:
    """Return the images of the archive in the folder ``datasets``.

    Raises:
        DataError: there is no archive and it cannot be downloaded, or it is not in CIFAR-10's form.
    """
    archive = datasets / ARCHIVE
    ensure_file(archive, _URL, SHA256)
    try:
        with tarfile.open(archive) as tar:
            images, labels = _read(tar, _TRAIN)
            validation = _read(tar, _VALIDATION)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(
            f"{archive} cannot be read ({error}): remove it, or put it there anew"
        ) from (error)
    except (KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise DataError(f"{archive} is not in CIFAR-10's form: {error}") from error
    pixels = images.to(torch.float32)
    mean = tuple(pixels.mean(dim=(0, 2, 3)).tolist())
    deviation = tuple(pixels.std(dim=(0, 2, 3), correction=0).tolist())
    return Cifar10(
        train=Images(images, labels, mean, deviation),
        validation=Images(*validation, mean, deviation),
        sha256=sha256_of(archive),
    )


def _read(tar: tarfile.TarFile, names: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    batches = [_read_batch(tar, name) for name in names]
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return torch.from_numpy(images), torch.from_numpy(labels)


def _read_batch(tar: tarfile.TarFile, name: str) -> tuple[np.ndarray, np.ndarray]:
    file = tar.extractfile(f"{_FOLDER}/{name}")
    if file is None:
        raise ValueError(f"{name} is no file")
    content = _PlainUnpickler(io.BytesIO(file.read()), encoding="bytes").load()
    images = np.asarray(content[b"data"], dtype=np.uint8)
    labels = np.asarray(content[b"labels"], dtype=np.int64)
    if len(images) != len(labels) or not set(labels.tolist()) <= set(range(CLASSES)):
        raise ValueError(f"{name} has no label from 0 to {CLASSES - 1} for each image")
    return images.reshape(-1, *_SHAPE), labels


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct"):
                return np.empty(0).__reduce__()[0]
            case ("numpy", "ndarray" | "dtype"):
                return getattr(np, name)
            case ("_codecs", "encode"):
                return lambda text, encoding: text.encode(encoding)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into it")
