"""The handwritten digits that ship with scikit-learn: 1,797 real images of 8x8 pixels.

They are the test set of Alpaydin, Kaynak: Optical Recognition of Handwritten Digits, UCI Machine
Learning Repository, 1998. They need no download.
"""

import hashlib
from importlib.metadata import distribution

import numpy as np
import torch

from mlbench_worker.data.images import ImageData, Images

CLASSES = 10


def load_digits() -> ImageData:
    """Return the digits as float images ``[n, 1, 8, 8]`` from 0 (paper) to 1 (ink).

    Every fifth of each digit, in the data set's order, is for validation: 364 of them.
    """
    # Importing scikit-learn would take two seconds.
    file = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    rows = np.loadtxt(str(file), delimiter=",")
    digits = rows[:, -1].astype(int)
    validation = np.zeros(len(digits), dtype=bool)
    for digit in range(CLASSES):
        validation[np.flatnonzero(digits == digit)[::5]] = True
    pixels = rows[:, :-1].reshape(-1, 1, 8, 8)
    images = torch.tensor(pixels / 16.0, dtype=torch.float32)  # the darkest pixel is 16
    labels = torch.tensor(digits, dtype=torch.int64)
    train, held_out = (Images(images[part], labels[part]) for part in (~validation, validation))
    digest = hashlib.sha256()
    for part in (train, held_out):
        digest.update(part.images.numpy().tobytes())
        digest.update(part.labels.numpy().tobytes())
    return ImageData(train, held_out, digest.hexdigest())
