"""Small data sets in LIBSVM's format that a linear model can learn, made from known weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LabelledRows:
    """The rows and labels of a generated data set."""

    rows: NDArray[np.float64]
    labels: NDArray[np.float64]

    def text(self, labels: Sequence[str] | None = None) -> bytes:
        """Return the data set in LIBSVM's format, without zero entries, as in the real files.

        ``labels`` replaces the spelling of -1 and +1.
        """
        spelled = dict(zip((-1.0, 1.0), labels, strict=True)) if labels else {}
        return "".join(
            f"{spelled.get(label, f'{label:.9g}')} "
            + " ".join(f"{j + 1}:{row[j]:.9g}" for j in np.flatnonzero(row))
            + " \n"
            for row, label in zip(self.rows, self.labels, strict=True)
        ).encode()


def make(count: int, features: int, *, density: float = 1.0, seed: int = 0) -> LabelledRows:
    """Return ``count`` rows of length 1, sorted by label: -1 and +1 by the sign of ``w·x``.

    ``w`` is the same for every seed.
    """
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, features)) * (random.random((count, features)) < density)
    rows[:, 0] += 1e-3  # every row needs an entry
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = np.random.default_rng(1_000_000).normal(size=features)
    labels = np.where(rows @ weights > 0, 1.0, -1.0)
    order = np.argsort(labels, kind="stable")
    return LabelledRows(rows[order], labels[order])


def make_regression(count: int, features: int) -> LabelledRows:
    """Return rows like `make`, with labels ``w·x`` plus normal noise (standard deviation 0.1)."""
    samples = make(count, features)
    random = np.random.default_rng(1)
    weights = np.random.default_rng(1_000_000).normal(size=features)
    return LabelledRows(samples.rows, samples.rows @ weights + 0.1 * random.normal(size=count))
