"""The parsed form of a text file, beside it: arrays on disk, which all processes map into memory.

The folder ``FILE.parsed`` appears in one step when it is complete, so a process that is killed
leaves nothing that could be taken for whole. A file that has changed since (by size and time) is
parsed anew; so is one whose parsed form is cut, or of another version of this program.

Blocks of lines are parsed one after the other, in bounded memory, and laid down as parts. When the
last one is known, and so the size of the whole, the parts' rows are spread over the final arrays.

The rows are stored in a pseudo-random order, the same on every machine. Files are often sorted by
label, and a step of stochastic gradient descent should take a contiguous block, which memory reads
several times as fast as rows picked here and there; in this order any block is a random sample.
"""

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from mlbench_worker.data.libsvm.rows import DenseRows, Rows, SparseRows
from mlbench_worker.data.libsvm.text import parse_lines, read_blocks
from mlbench_worker.ranks.process import DataError

_VERSION = 2
_ABOUT = "about.json"
_VALUES, _COLUMNS, _STARTS, _LABELS = "values.npy", "columns.npy", "starts.npy", "labels.npy"

_REPORT_SECONDS = 5.0
# A dense entry takes 4 bytes, one of a sparse row 8.
_DENSE_FROM = 0.5


@dataclass(frozen=True)
class Figures:
    """The figures of a whole file."""

    rows: int
    width: int
    """The largest index."""
    dense: bool
    largest_norm2: float
    """The largest squared Euclidean norm of a row."""
    sha256: str
    """Of the text, decompressed, in hexadecimal."""


@dataclass(frozen=True)
class Table:
    """A parsed file: rows in a fixed pseudo-random order, as float32."""

    rows: Rows
    labels: torch.Tensor
    """``[rows]``, as the file has them."""
    figures: Figures


def open_table(source: Path) -> Table:
    """Return a text file's rows, mapped into memory; parse it first if nobody has done so.

    Of several processes that need it, one parses and the others wait.

    Raises:
        DataError: the file is malformed, or its folder cannot be written to.
    """
    folder = source.with_name(f"{source.name}.parsed")
    if table := _map(folder, source):
        return table
    try:
        with _locked(source.with_name(f"{source.name}.lock")):
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
    shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
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


def _map(folder: Path, source: Path) -> Table | None:
    """Map the parsed form, if it is whole and of the file as it is now."""
    try:
        about = json.loads((folder / _ABOUT).read_text())
        if (about["version"], about["source"]) != (_VERSION, _stamp(source)):
            return None
        figures = Figures(**about["parsed"])
        values, labels = _tensor(folder / _VALUES), _tensor(folder / _LABELS)
        rows: Rows = DenseRows(values)
        if not figures.dense:
            rows = SparseRows(values, _tensor(folder / _COLUMNS), _tensor(folder / _STARTS))
    except (OSError, ValueError, TypeError, LookupError, EOFError):
        return None
    return Table(rows, labels, figures)


def _tensor(path: Path) -> torch.Tensor:
    # Copy on write: PyTorch has no read-only tensors, and this leaves the file alone.
    return torch.from_numpy(np.load(path, mmap_mode="c"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock among this machine's processes; it ends with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{path.stem}: another process is parsing it; waiting", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class _Block:
    """The figures of a parsed block; its values and columns lie in a file."""

    labels: NDArray[np.float32]
    lengths: NDArray[np.int64]
    """How many entries each row has."""
    width: int
    largest_norm2: float


def _parse(source: Path, folder: Path) -> Figures:
    """Parse a text file into float32 arrays in ``folder``, which is empty.

    The labels are ``[rows]``. Where at least half of the entries are given, the values are
    ``[rows, width]``; else values, columns (int32) and starts (int64) are compressed sparse rows.
    """
    digest = hashlib.sha256()
    with source.open("rb") as raw:
        blocks = list(_parse_blocks(source, raw, digest.update, folder))
    if not any(block.lengths.any() for block in blocks):
        raise DataError(f"{source} has no features: is it a file in LIBSVM's format?")
    lengths = np.concatenate([block.lengths for block in blocks])
    rows, width = len(lengths), max(block.width for block in blocks)
    dense = bool(lengths.sum() >= _DENSE_FROM * rows * width)
    print(f"{source.name}: {rows} rows of {width} features; putting them together", flush=True)
    # The old generator: numpy promises that its numbers never change.
    places = np.random.RandomState(0).permutation(rows)
    starts = np.zeros(rows + 1, np.int64)
    starts[1 + places] = lengths
    np.cumsum(starts, out=starts)
    labels = np.empty(rows, np.float32)
    labels[places] = np.concatenate([block.labels for block in blocks])
    np.save(folder / _LABELS, labels)
    if dense:
        values = _create(folder / _VALUES, np.float32, (rows, width))
    else:
        np.save(folder / _STARTS, starts)
        values = _create(folder / _VALUES, np.float32, (int(starts[-1]),))
        columns = _create(folder / _COLUMNS, np.int32, (int(starts[-1]),))
    where_blocks_end = np.cumsum([len(block.labels) for block in blocks])[:-1]
    for number, where in enumerate(np.split(places, where_blocks_end)):
        its_lengths = blocks[number].lengths
        its_values, its_columns = _take_entries(folder / f"part-{number}", int(its_lengths.sum()))
        if dense:
            filled = np.zeros((len(where), width), np.float32)
            filled[np.arange(len(where)).repeat(its_lengths), its_columns] = its_values
            values[where] = filled
        else:
            shifts = starts[where] - (np.cumsum(its_lengths) - its_lengths)
            targets = np.arange(len(its_values)) + shifts.repeat(its_lengths)
            values[targets], columns[targets] = its_values, its_columns
    values.flush()
    if not dense:
        columns.flush()
    largest_norm2 = max(block.largest_norm2 for block in blocks)
    return Figures(rows, width, dense, largest_norm2, digest.hexdigest())


def _parse_blocks(
    source: Path, raw: BinaryIO, note: Callable[[bytes], object], folder: Path
) -> Iterator[_Block]:
    """Yield the blocks in the order of the file, and print the progress now and then."""
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
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            share, seconds = raw.tell() / size, reported - started
            print(f"{source.name}: {share:.0%} parsed in {seconds:.0f} s", flush=True)


def _take_entries(file: Path, count: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the values and columns of a block, and remove their file."""
    with file.open("rb") as opened:
        entries = np.fromfile(opened, np.float32, count), np.fromfile(opened, np.int32, count)
    file.unlink()
    return entries


def _create(path: Path, dtype: type, shape: tuple[int, ...]) -> np.memmap:
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
