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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

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
class Table:
    """A parsed file: rows in a fixed pseudo-random order, as float32."""

    rows: Rows
    labels: torch.Tensor
    """``[rows]``, as the file has them."""
    width: int
    """The largest index."""
    largest_norm2: float
    """The largest squared Euclidean norm of a row."""
    sha256: str
    """Of the file's text, decompressed, in hexadecimal."""


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
        parsed = _Parsed(**about["parsed"])
        values, labels = _tensor(folder / _VALUES), _tensor(folder / _LABELS)
        rows: Rows = DenseRows(values)
        if not parsed.dense:
            rows = SparseRows(values, _tensor(folder / _COLUMNS), _tensor(folder / _STARTS))
    except (OSError, ValueError, TypeError, LookupError, EOFError):
        return None
    return Table(rows, labels, parsed.width, parsed.largest_norm2, parsed.sha256)


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
class _Parsed:
    """The figures of the whole file."""

    rows: int
    width: int
    dense: bool
    largest_norm2: float
    """The largest squared Euclidean norm of a row."""
    sha256: str
    """Of the text, decompressed, in hexadecimal."""


@dataclass(frozen=True)
class _Part:
    """A parsed block, whose rows lie in a file."""

    file: Path
    labels: NDArray[np.float32]
    lengths: NDArray[np.int32]
    """How many entries each row has."""
    width: int
    largest_norm2: float

    def take(self) -> Any:
        """Return the rows, a ``csr_matrix``, and remove the file."""
        from scipy.sparse import load_npz  # noqa: PLC0415 - a file is parsed once

        rows = load_npz(self.file)
        self.file.unlink()
        return rows


def _parse(source: Path, folder: Path) -> _Parsed:
    """Parse a text file into float32 arrays in ``folder``, which is empty.

    The labels are ``[rows]``. Where at least half of the entries are given, the values are
    ``[rows, width]``; else values, columns (int32) and starts (int64) are compressed sparse rows.
    """
    digest = hashlib.sha256()
    with source.open("rb") as raw:
        parts = list(_parse_parts(source, raw, digest.update, folder))
    rows, entries = (sum(len(p.labels) for p in parts), sum(int(p.lengths.sum()) for p in parts))
    if not entries:
        raise DataError(f"{source} has no features: is it a file in LIBSVM's format?")
    width = max(part.width for part in parts)
    dense = entries >= _DENSE_FROM * rows * width
    print(f"{source.name}: {rows} rows of {width} features; putting them together", flush=True)
    # The old generator: numpy promises that its numbers never change.
    places = np.random.RandomState(0).permutation(rows)
    labels = np.empty(rows, np.float32)
    labels[places] = np.concatenate([part.labels for part in parts])
    np.save(folder / _LABELS, labels)
    (_assemble_dense if dense else _assemble_sparse)(parts, places, width, folder)
    largest_norm2 = max(part.largest_norm2 for part in parts)
    return _Parsed(rows, width, dense, largest_norm2, digest.hexdigest())


def _parse_parts(
    source: Path, raw: BinaryIO, note: Callable[[bytes], object], folder: Path
) -> Iterator[_Part]:
    """Yield the parts in the order of the file, and print the progress now and then."""
    from scipy.sparse import save_npz  # noqa: PLC0415 - a file is parsed once

    size, started = source.stat().st_size, time.monotonic()
    reported = started
    for number, lines in enumerate(read_blocks(source, raw, note)):
        rows, labels = parse_lines(lines)
        file = folder / f"part-{number}"
        with file.open("wb") as out:
            save_npz(out, rows, compressed=False)
        norms2 = rows.astype(np.float64).power(2) @ np.ones(rows.shape[1])
        yield _Part(file, labels, np.diff(rows.indptr), rows.shape[1], norms2.max(initial=0.0))
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            share, seconds = raw.tell() / size, reported - started
            print(f"{source.name}: {share:.0%} parsed in {seconds:.0f} s", flush=True)


def _assemble_dense(
    parts: Sequence[_Part], places: NDArray[np.int64], width: int, folder: Path
) -> None:
    values = _create(folder / _VALUES, np.float32, (len(places), width))
    for part, where in _placed(parts, places):
        rows = part.take()
        rows.resize(len(where), width)
        values[where] = rows.toarray()
    values.flush()


def _assemble_sparse(
    parts: Sequence[_Part], places: NDArray[np.int64], _: int, folder: Path
) -> None:
    starts = np.zeros(len(places) + 1, np.int64)
    starts[1 + places] = np.concatenate([part.lengths for part in parts])
    np.cumsum(starts, out=starts)
    np.save(folder / _STARTS, starts)
    values = _create(folder / _VALUES, np.float32, (int(starts[-1]),))
    columns = _create(folder / _COLUMNS, np.int32, (int(starts[-1]),))
    for part, where in _placed(parts, places):
        rows = part.take()
        targets = np.arange(rows.nnz) + np.repeat(starts[where] - rows.indptr[:-1], part.lengths)
        values[targets] = rows.data
        columns[targets] = rows.indices
    values.flush()
    columns.flush()


def _placed(
    parts: Sequence[_Part], places: NDArray[np.int64]
) -> Iterator[tuple[_Part, NDArray[np.int64]]]:
    """Yield the parts, and the place of each of their rows in the whole."""
    ends = np.cumsum([len(part.labels) for part in parts])
    return zip(parts, np.split(places, ends[:-1]), strict=True)


def _create(path: Path, dtype: type, shape: tuple[int, ...]) -> np.memmap:
    """Create an array of zeros in a file."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
