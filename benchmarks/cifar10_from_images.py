"""Build CIFAR-10's archive from a folder of image files.

``python -m benchmarks.cifar10_from_images IMAGES DATASETS`` reads ``IMAGES/train/CLASS/*`` and
``IMAGES/test/CLASS/*``, and writes the archive into the folder ``DATASETS``. The training images
are shuffled in a fixed order, so that each of the five batches has all classes. If the files are
lossy copies, such as JPEG files, runs say that the archive is not the standard one.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.cifar_archives import Bytes, write_archive

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_SEED = 0


def convert(images: Path, datasets: Path) -> Path:
    """Write the archive of a folder of images into another folder, and return its path."""
    datasets.mkdir(parents=True, exist_ok=True)
    return write_archive(datasets, _read(images / "train"), _read(images / "test"))


def _read(folder: Path) -> tuple[Bytes, list[int]]:
    """Return the images ``[n, 3, 32, 32]`` below a folder and their labels, shuffled."""
    files = [
        (path, label)
        for label, name in enumerate(CLASSES)
        for path in sorted((folder / name).iterdir())
    ]
    # The old generator: numpy promises that its numbers never change.
    shuffled = [files[i] for i in np.random.RandomState(_SEED).permutation(len(files))]
    images = np.stack([np.asarray(Image.open(path).convert("RGB")) for path, _ in shuffled])
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)), [label for _, label in shuffled]


if __name__ == "__main__":
    print(convert(*map(Path, sys.argv[1:])))
