"""CIFAR-10: the archive, downloaded if it is missing, and a cache of its arrays.

Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009.

Decompressing and parsing the archive takes four seconds of a core, so the arrays are cached in
``cifar-10-python.tar.gz.parsed.npz``, with checksums. If the size or time of the archive changes,
it is parsed again.
"""

import fcntl
import hashlib
import io
import pickle
import shutil
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch
from numpy.typing import NDArray

from mlbench.benchmarks.tasks import CIFAR10_SHA256
from mlbench.contract.atomic_files import replacing
from mlbench_worker.data.images import ImageData, Images
from mlbench_worker.ranks.rank_process import DataError

CLASSES = 10
ARCHIVE = "cifar-10-python.tar.gz"
_URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"


def load_cifar10(datasets: Path) -> ImageData:
    """Return the images of the archive in the folder ``datasets``; download it if it is missing.

    There are 50,000 byte images ``[n, 3, 32, 32]`` (red, green, blue) for training, and 10,000 for
    validation, which the archive calls the test batch. They are normalized by mean and deviation of
    each colour over the training images.

    Raises:
        DataError: the archive cannot be downloaded, or is not in CIFAR-10's format.
    """
    archive = datasets / ARCHIVE
    if not archive.is_file():
        _ensure_downloaded(archive)
    status = archive.stat()
    version = 1  # of the cache's format
    stamp = np.array([version, status.st_size, status.st_mtime_ns])
    cache = archive.with_name(f"{archive.name}.parsed.npz")
    arrays: dict[str, NDArray[Any]] = {}
    # The cache may be missing or damaged.
    errors = (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile)
    with suppress(*errors), cache.open("rb") as file, np.load(file) as cached:
        if np.array_equal(cached["of"], stamp):
            arrays = dict(cached)
    if not arrays:
        arrays = {"of": stamp, **_parse(archive)}
        # Reading the cache takes a tenth of the time to parse. If the folder is read-only, each run
        # parses the archive.
        with suppress(OSError), replacing(cache) as draft:
            np.savez(draft, **arrays)  # type: ignore[arg-type]
    mean, deviation = map(tuple, arrays["colours"].tolist())
    train, validation = (
        Images(
            torch.from_numpy(arrays[f"{part}_images"]),
            torch.from_numpy(arrays[f"{part}_labels"]),
            mean,
            deviation,
        )
        for part in ("train", "validation")
    )
    return ImageData(train, validation, str(arrays["sha256"]))


def _parse(archive: Path) -> dict[str, NDArray[Any]]:
    try:
        with tarfile.open(archive) as tar:
            batches = [_read(tar, f"data_batch_{number}") for number in range(1, 6)]
            images, labels = map(np.concatenate, zip(*batches, strict=True))
            validation_images, validation_labels = _read(tar, "test_batch")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{archive} cannot be read ({error}): remove it, or replace it") from error
    except (KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
        raise DataError(f"{archive} is not in CIFAR-10's form: {error}") from error
    pixels = torch.from_numpy(images).to(torch.float32)
    colours = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3), correction=0)
    return {
        "train_images": images,
        "train_labels": labels,
        "validation_images": validation_images,
        "validation_labels": validation_labels,
        "colours": torch.stack(colours).numpy(),
        "sha256": np.array(_sha256_of(archive)),
    }


def _read(tar: tarfile.TarFile, batch: str) -> tuple[np.ndarray, np.ndarray]:
    file = tar.extractfile(f"cifar-10-batches-py/{batch}")
    if file is None:
        raise ValueError(f"{batch} is no file")
    content = _PlainUnpickler(io.BytesIO(file.read()), encoding="bytes").load()
    images = np.asarray(content[b"data"], dtype=np.uint8)
    labels = np.asarray(content[b"labels"], dtype=np.int64)
    if len(images) != len(labels) or not set(labels.tolist()) <= set(range(CLASSES)):
        raise ValueError(f"{batch} has no label from 0 to {CLASSES - 1} for each image")
    return images.reshape(-1, 3, 32, 32), labels


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays, and rejects all objects that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct"):
                return np.empty(0).__reduce__()[0]
            case ("numpy", "ndarray" | "dtype"):
                return getattr(np, name)
            case ("_codecs", "encode"):
                return lambda text, encoding: text.encode(encoding)
        raise pickle.UnpicklingError(f"unexpected object in the archive: {module}.{name}")


def _ensure_downloaded(archive: Path) -> None:
    """Download the archive, once per machine: the other ranks wait."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with archive.with_name(archive.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if archive.is_file():
                return
            print(f"downloading {_URL}", flush=True)
            draft = archive.with_name(archive.name + ".new")
            with urlopen(_URL, timeout=30.0) as response, draft.open("wb") as file:
                shutil.copyfileobj(response, file)
            if (digest := _sha256_of(draft)) != CIFAR10_SHA256:
                draft.unlink()
                raise DataError(
                    f"what {_URL} answered is not {archive.name}: its SHA-256 is {digest}, not "
                    f"{CIFAR10_SHA256}; put the right file at {archive}"
                )
            draft.replace(archive)
    except OSError as error:
        raise DataError(
            f"{archive} not found, and the download from {_URL} failed ({error}): "
            "put the archive there"
        ) from error


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
