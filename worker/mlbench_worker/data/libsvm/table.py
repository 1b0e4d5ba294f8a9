"""The parsed form of a text file: arrays on disk, which all processes map into memory.

The folder ``FILE.parsed`` is created atomically when it is complete, so that a killed process does
not leave an incomplete one. A file is parsed again if its size or time has changed, or if its
parsed form is truncated or from another version of this program.

Blocks of lines are parsed one after the other, in bounded memory, and stored as parts. After the
last one, the size of the whole is known, and the rows of all parts are copied to the final arrays.

The rows are stored in a pseudo-random order, the same on every machine. Files are often sorted by
label, and a step of stochastic gradient descent should read a contiguous block, which is several
times faster than reading scattered rows. In this order any block is a random sample.
"""

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from mlbench_worker.data.libsvm.row_blocks import DenseRows, Rows, SparseRows, SparseSamples
from mlbench_worker.data.libsvm.svmlight_text import parse_lines, read_blocks
from mlbench_worker.ranks.rank_process import DataError

_VERSION = 2
_ABOUT = "about.json"
_VALUES, _COLUMNS, _STARTS, _LABELS = "values.npy", "columns.npy", "starts.npy", "labels.npy"


@dataclass(frozen=True)
class TableStatistics:
    """The figures of a whole file."""

    rows: int
    width: int
    """Number of features: the largest index."""
    dense: bool
    largest_norm2: float
    """The largest squared Euclidean norm of a row."""
    sha256: str
    """SHA-256 of the decompressed text, in hexadecimal."""


def open_table(source: Path) -> tuple[SparseSamples, TableStatistics]:
    """Return the samples of a text file, mapped into memory; parse it first if necessary.

    If several processes need it, one parses and the others wait.

    Raises:
        DataError: the file is malformed, or its folder cannot be written to.
    """
    folder = source.with_name(f"{source.name}.parsed")
    if table := _map(folder, source):
        return table
    try:
        with source.with_name(f"{source.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"{source.name}: another process is parsing it; waiting", flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not _map(folder, source):
                _make(folder, source)
            table = _map(folder, source)
    except OSError as error:
        raise DataError(
            f"{source} cannot be parsed, as {error.filename or folder} cannot be written "
            f"({error.strerror}). Parse it once where that can be, with "
            f"`python -m mlbench_worker.data.libsvm {source.name}`: its parsed form is then used "
            f"from {folder}"
        ) from error
    if table is None:
        raise DataError(f"{source} was changed while it was parsed")
    return table


def _make(folder: Path, source: Path) -> None:
    draft = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(draft, ignore_errors=True)  # left by a killed process
    draft.mkdir()
    try:
        stamp = _stamp(source)
        about = {"version": _VERSION, "source": stamp, "parsed": asdict(_parse(source, draft))}
        (draft / _ABOUT).write_text(json.dumps(about, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _stamp(source: Path) -> dict[str, int]:
    status = source.stat()
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _map(folder: Path, source: Path) -> tuple[SparseSamples, TableStatistics] | None:
    """Map the parsed form; None unless it is complete and the file has not changed since."""
    try:
        about = json.loads((folder / _ABOUT).read_text())
        if (about["version"], about["source"]) != (_VERSION, _stamp(source)):
            return None
        figures = TableStatistics(**about["parsed"])
        values, labels = _tensor(folder / _VALUES), _tensor(folder / _LABELS)
        rows: Rows = DenseRows(values)
        if not figures.dense:
            rows = SparseRows(values, _tensor(folder / _COLUMNS), _tensor(folder / _STARTS))
    except (OSError, ValueError, TypeError, LookupError, EOFError):
        return None
    return SparseSamples(rows, labels), figures


def _tensor(path: Path) -> torch.Tensor:
    # Copy on write protects the file: PyTorch has no read-only tensors.
    return torch.from_numpy(np.load(path, mmap_mode="c"))


@dataclass(frozen=True)
class _Block:
    """The figures of a parsed block, whose values and columns are in a file."""

    labels: NDArray[np.float32]
    lengths: NDArray[np.int64]
    """Number of entries of each row."""
    width: int
    largest_norm2: float


def _parse(source: Path, folder: Path) -> TableStatistics:
    """Parse a text file into float32 arrays in ``folder``, which is empty.

    The labels are ``[rows]``. If at least half of the entries are given, the values are
    ``[rows, width]``. Otherwise values, columns (int32) and starts (int64) are compressed sparse
    rows: 8 bytes per entry instead of 4.
    """
    digest = hashlib.sha256()
    with source.open("rb") as raw:
        blocks = list(_parse_blocks(source, raw, digest.update, folder))
    if not any(block.lengths.any() for block in blocks):
        raise DataError(f"{source} has no features: is it a file in LIBSVM's format?")
    lengths = np.concatenate([block.lengths for block in blocks])
    rows, width = len(lengths), max(block.width for block in blocks)
    dense = bool(lengths.sum() >= 0.5 * rows * width)
    print(f"{source.name}: {rows} rows of {width} features; putting them together", flush=True)
    # numpy guarantees that the numbers of this old generator never change.
    places = np.random.RandomState(0).permutation(rows)
    starts = np.zeros(rows + 1, np.int64)
    starts[1 + places] = lengths
    np.cumsum(starts, out=starts)
    labels = np.empty(rows, np.float32)
    labels[places] = np.concatenate([block.labels for block in blocks])
    np.save(folder / _LABELS, labels)
    create = partial(np.lib.format.open_memmap, mode="w+")
    if dense:
        values = create(folder / _VALUES, dtype=np.float32, shape=(rows, width))
    else:
        np.save(folder / _STARTS, starts)
        values = create(folder / _VALUES, dtype=np.float32, shape=(int(starts[-1]),))
        columns = create(folder / _COLUMNS, dtype=np.int32, shape=(int(starts[-1]),))
    where_blocks_end = np.cumsum([len(block.labels) for block in blocks])[:-1]
    for number, where in enumerate(np.split(places, where_blocks_end)):
        part_lengths, part = blocks[number].lengths, folder / f"part-{number}"
        count = int(part_lengths.sum())
        with part.open("rb") as file:
            part_values = np.fromfile(file, np.float32, count)
            part_columns = np.fromfile(file, np.int32, count)
        part.unlink()
        if dense:
            matrix = np.zeros((len(where), width), np.float32)
            matrix[np.arange(len(where)).repeat(part_lengths), part_columns] = part_values
            values[where] = matrix
        else:
            shifts = starts[where] - (np.cumsum(part_lengths) - part_lengths)
            targets = np.arange(len(part_values)) + shifts.repeat(part_lengths)
            values[targets], columns[targets] = part_values, part_columns
    values.flush()
    if not dense:
        columns.flush()
    largest_norm2 = max(block.largest_norm2 for block in blocks)
    return TableStatistics(rows, width, dense, largest_norm2, digest.hexdigest())


def _parse_blocks(
    source: Path, raw: BinaryIO, note: Callable[[bytes], object], folder: Path
) -> Iterator[_Block]:
    """Yield the blocks in the order of the file, and print the progress every 5 seconds."""
    size, started = source.stat().st_size, time.monotonic()
    reported = started
    for number, (first, text) in enumerate(read_blocks(source, raw, note)):
        rows, labels = parse_lines(source, first, text)
        with (folder / f"part-{number}").open("wb") as out:
            rows.data.tofile(out)
            rows.indices.astype(np.int32).tofile(out)
        norms2 = rows.astype(np.float64).power(2) @ np.ones(rows.shape[1])
        lengths = np.diff(rows.indptr).astype(np.int64)
        yield _Block(labels, lengths, rows.shape[1], float(norms2.max(initial=0.0)))
        if time.monotonic() - reported > 5.0:
            reported = time.monotonic()
            share, seconds = raw.tell() / size, reported - started
            print(f"{source.name}: {share:.0%} parsed in {seconds:.0f} s", flush=True)
