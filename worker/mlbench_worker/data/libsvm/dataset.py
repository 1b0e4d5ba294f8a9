"""A data set of two parts, rows to train on and rows to validate with, and their targets."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mlbench_worker.data.libsvm.rows import Rows
from mlbench_worker.data.libsvm.table import Table, open_table
from mlbench_worker.data.libsvm.text import find_files
from mlbench_worker.ranks.process import DataError

# Where a data set is one file, one row of so many is for validation.
_HELD_OUT = 5
_CLASSES = 2


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows of features, and the target of each."""

    rows: Rows
    targets: torch.Tensor
    """``[rows]``: classes as -1 and +1, or numbers."""

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, part: slice) -> "Samples":
        return Samples(self.rows[part], self.targets[part])

    def to(self, device: torch.device) -> "Samples":
        """Return the same samples on a device."""
        return Samples(self.rows.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Dataset:
    """A data set, mapped into memory."""

    train: Samples
    validation: Samples
    features: int
    """As many as both parts together have."""
    largest_norm2: float
    """The largest squared Euclidean norm of a row of either part."""
    sha256: str
    """Of the text of each file, decompressed, in hexadecimal; two are joined by a comma."""

    def to(self, device: torch.device) -> "Dataset":
        """Return the same data on a device: on the CPU, where it is mapped."""
        return replace(self, train=self.train.to(device), validation=self.validation.to(device))


def load_dataset(name: str, folder: Path, *, classes: bool) -> Dataset:
    """Return a data set; its text files are parsed if nobody has done so yet.

    Rows come in a fixed pseudo-random order. With ``classes``, labels of any two values become -1
    (the smaller) and +1. A data set of one file gives a fifth of its rows, chosen at random, always
    the same, for validation.

    Raises:
        DataError: a file is missing or malformed, or ``classes`` are wanted and there are not two.
    """
    tables = [open_table(file) for file in find_files(name, folder) if file is not None]
    train, *others = (Samples(one.rows, _targets(one, tables, name, classes)) for one in tables)
    if others:
        [validation] = others
    else:
        held_out = len(train) // _HELD_OUT
        train, validation = train[held_out:], train[:held_out]
    figures = [table.figures for table in tables]
    return Dataset(
        train,
        validation,
        features=max(of_file.width for of_file in figures),
        largest_norm2=max(of_file.largest_norm2 for of_file in figures),
        sha256=",".join(of_file.sha256 for of_file in figures),
    )


def _targets(table: Table, tables: list[Table], name: str, classes: bool) -> torch.Tensor:
    if not classes:
        return table.labels
    labels = torch.unique(torch.cat([table.labels for table in tables]))
    if len(labels) != _CLASSES:
        raise DataError(
            f"data set {name}: a classification needs labels of two values, and there are "
            f"{len(labels)}; --model ridge takes any"
        )
    return torch.where(table.labels == labels[0], -1.0, 1.0)
