"""Reads lines of LIBSVM's format, ``label index:value index:value …``, and says what is wrong.

The format: https://www.csie.ntu.edu.tw/~cjlin/libsvm/ (README, "Training and testing data file").
Indices count from 1 and rise within a line, what a line leaves out is 0, ``#`` begins a comment.
"""

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from worker.data.folder import DataError

_LARGEST_INDEX = 2**31 - 1
_LARGEST_NUMBER = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Lines:
    """Whole lines of a file."""

    text: bytes
    source: str
    """The file's name, for errors."""
    first: int
    """The number of the first of them in the file, which counts from 1."""


@dataclass(frozen=True)
class Block:
    """Parsed lines: labels and compressed sparse rows."""

    labels: NDArray[np.float32]
    """``[rows]``"""
    starts: NDArray[np.int64]
    """``[rows + 1]``: where the entries of each row begin, and those of the last end"""
    columns: NDArray[np.int32]
    """``[entries]``, from 0"""
    values: NDArray[np.float32]
    """``[entries]``"""

    @property
    def width(self) -> int:
        """The largest index."""
        return int(self.columns.max(initial=-1)) + 1

    @property
    def rows_of_entries(self) -> NDArray[np.int64]:
        """The number of each entry's row ``[entries]``."""
        return np.arange(len(self.labels)).repeat(np.diff(self.starts))


def parse_lines(lines: Lines) -> Block:
    """Return the rows of these lines.

    Raises:
        DataError: a line is malformed; the error names it and says what would be right.
    """
    try:
        rows, labels = load_svmlight_file(
            io.BytesIO(lines.text), dtype=np.float32, zero_based=False
        )
    except (ValueError, OverflowError) as error:
        _blame(lines)
        raise DataError(f"{lines.source}, from line {lines.first} on: {error}") from error
    finite = np.isfinite(rows.data).all() and (np.abs(labels) <= _LARGEST_NUMBER).all()
    if not finite or rows.shape[1] > _LARGEST_INDEX:
        _blame(lines)
    return Block(
        labels.astype(np.float32),
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data,
    )


def _blame(lines: Lines) -> None:
    """Raise a DataError for the first line that is malformed."""
    for number, line in enumerate(lines.text.split(b"\n"), start=lines.first):
        if wrong := _what_is_wrong(line):
            raise DataError(f"{lines.source}, line {number}: {wrong}")


def _what_is_wrong(line: bytes) -> str | None:
    words = line.partition(b"#")[0].decode(errors="replace").split()
    if not words:
        return None
    label, *features = words
    if not _is_number(label):
        return f"the label must be a finite number, not {label!r}"
    last = 0
    for feature in features:
        if feature.startswith("qid:"):
            continue
        if wrong := _what_is_wrong_with(feature, last):
            return wrong
        last = int(feature.partition(":")[0])
    return None


def _what_is_wrong_with(feature: str, last: int) -> str | None:
    """Return what is wrong with a feature that comes after the index ``last``."""
    index, colon, value = feature.partition(":")
    if not (colon and index.lstrip("+-").isdecimal()):
        return f"a feature must be INDEX:VALUE, as in 3:0.5, not {feature!r}"
    if not 1 <= int(index) <= _LARGEST_INDEX:
        return f"an index must be from 1 to {_LARGEST_INDEX}, not {index}"
    if int(index) <= last:
        return f"indices must rise within a line, but {index} comes after {last}"
    if not _is_number(value):
        return f"the value of feature {index} must be a finite number, not {value!r}"
    return None


def _is_number(text: str) -> bool:
    """Return whether the text is a number that is finite as a float32 too."""
    try:
        return abs(float(text)) <= _LARGEST_NUMBER
    except ValueError:
        return False
