"""Text files in LIBSVM's format, ``label index:value index:value …``: found, read, parsed.

The format: https://www.csie.ntu.edu.tw/~cjlin/libsvm/ (README, "Training and testing data file").
Indices start at 1 and increase within a line. Missing values are 0. ``#`` starts a comment.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mlbench_worker.ranks.rank_process import DataError

_BLOCK_BYTES = 16 << 20
_DECOMPRESS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
# Training and validation files that are not called NAME and NAME.t.
_KNOWN = {
    "epsilon": ("epsilon_normalized", "epsilon_normalized.t"),
    "rcv1": ("rcv1_train.binary", "rcv1_test.binary"),
}
_WHERE_TO_GET = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_LARGEST_INDEX = 2**31 - 1
_LARGEST_NUMBER = float(np.finfo(np.float32).max)


def find_files(name: str, folder: Path) -> tuple[Path, Path | None]:
    """Return the training file of a data set, and its validation file, or None without one.

    They are in ``folder`` or ``folder/name``, and may be compressed (.xz, .bz2, .gz). A data set
    whose files have another name than on LIBSVM's page (epsilon, rcv1) is found by the page's name.

    Raises:
        DataError: there is no training file.
    """
    train_name, validation_name = _KNOWN.get(name, (name, f"{name}.t"))
    places = (folder / name, folder)
    train = _find(train_name, places)
    if train is None:
        raise DataError(
            f"data set {name}: no file {train_name} (or with {', '.join(_DECOMPRESS)}) in "
            f"{folder} or {folder / name}. Get it from {_WHERE_TO_GET} and put it there, or "
            "set MLBENCH_DATASETS to the folder that has it"
        )
    return train, _find(validation_name, places)


def _find(name: str, places: tuple[Path, ...]) -> Path | None:
    candidates = (place / f"{name}{ending}" for place in places for ending in ("", *_DECOMPRESS))
    return next((path for path in candidates if path.is_file()), None)


def read_blocks(
    path: Path, raw: BinaryIO, note: Callable[[bytes], object]
) -> Iterator[tuple[int, bytes]]:
    """Yield all lines of a file in blocks, each with the number of its first line.

    Args:
        path: the file, with an ending for its compression.
        raw: the opened file.
        note: called with each block of text.

    Raises:
        DataError: the file cannot be decompressed.
    """
    first = 1
    decompress = _DECOMPRESS.get(path.suffix)
    text = decompress(raw) if decompress else raw
    try:
        while block := text.read(_BLOCK_BYTES):
            block += text.readline()
            note(block)
            yield first, block
            first += block.count(b"\n")
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise DataError(
            f"{path}, after line {first - 1}: it cannot be read to its end ({error}); "
            "a download that broke off? Get it again"
        ) from error


def parse_lines(path: Path, first: int, text: bytes) -> tuple[Any, NDArray[np.float32]]:
    """Return the rows of whole lines, a ``csr_matrix`` of float32, and their labels ``[rows]``.

    ``first`` is the number of the first line in the file; the file begins with line 1.

    Raises:
        DataError: a line is malformed; the error names it.
    """
    try:
        return _parse(text)
    except (ValueError, OverflowError) as problem:
        for number, line in enumerate(text.split(b"\n"), start=first):
            try:
                _parse(line)
            except (ValueError, OverflowError) as error:
                raise DataError(f"{path}, line {number}: {error}") from None
        raise DataError(f"{path}, from line {first} on: {problem}") from problem


def _parse(text: bytes) -> tuple[Any, NDArray[np.float32]]:
    # The import takes two seconds, and is needed only once per file.
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    rows, labels = load_svmlight_file(io.BytesIO(text), dtype=np.float32, zero_based=False)
    if not (np.isfinite(rows.data).all() and (np.abs(labels) <= _LARGEST_NUMBER).all()):
        raise ValueError("a label or value is no finite number")
    if rows.shape[1] > _LARGEST_INDEX:
        raise ValueError(f"an index is larger than {_LARGEST_INDEX}")
    return rows, labels.astype(np.float32)
