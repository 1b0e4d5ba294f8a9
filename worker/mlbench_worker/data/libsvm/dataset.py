"""A data set of two parts, training and validation, each with rows and targets."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mlbench_worker.data.libsvm.row_blocks import SparseSamples
from mlbench_worker.data.libsvm.svmlight_text import find_files
from mlbench_worker.data.libsvm.table import open_table
from mlbench_worker.ranks.rank_process import DataError


@dataclass(frozen=True)
class Dataset:
    """A data set, mapped into memory."""

    train: SparseSamples
    validation: SparseSamples
    features: int
    """Number of features of both parts together."""
    largest_norm2: float
    """The largest squared Euclidean norm of a row of either part."""
    sha256: str
    """SHA-256 of each decompressed file, in hexadecimal; joined by a comma if there are two."""

    def to(self, device: torch.device) -> "Dataset":
        """Return the data on a device; it stays mapped if that is the CPU."""
        return replace(self, train=self.train.to(device), validation=self.validation.to(device))


def load_dataset(name: str, folder: Path, *, classes: bool) -> Dataset:
    """Return a data set; parse its text files first if necessary.

    Rows are in a fixed pseudo-random order. With ``classes``, labels of any two values become -1
    (the smaller) and +1. If a data set is one file, a fifth of its rows, always the same, is for
    validation.

    Raises:
        DataError: a file is missing or malformed, or ``classes`` is set and there are not two.
    """
    tables = [open_table(file) for file in find_files(name, folder) if file is not None]
    parts = [samples for samples, _ in tables]
    if classes:
        labels = torch.unique(torch.cat([part.targets for part in parts]))
        if len(labels) != 2:
            raise DataError(
                f"data set {name}: a classification needs labels of two values, and there are "
                f"{len(labels)}; --model ridge takes any"
            )
        parts = [
            replace(part, targets=torch.where(part.targets == labels[0], -1.0, 1.0))
            for part in parts
        ]
    if len(parts) == 1:
        held_out = len(parts[0]) // 5
        parts = [parts[0][held_out:], parts[0][:held_out]]
    train, validation = parts
    figures = [statistics for _, statistics in tables]
    return Dataset(
        train,
        validation,
        features=max(file.width for file in figures),
        largest_norm2=max(file.largest_norm2 for file in figures),
        sha256=",".join(file.sha256 for file in figures),
    )
