"""Parses a text file into arrays on disk: in several processes, in bounded memory.

Blocks of lines are parsed in the order in which they come, by whichever process is free, and laid
down as parts. When the last one is known, and so the size of the whole, the parts' rows are spread
over the final arrays.

The rows are stored in a pseudo-random order, the same on every machine. Files are often sorted by
label, and a step of stochastic gradient descent shall take a contiguous block, which memory reads
several times as fast as rows picked here and there; in this order any block is a random sample.
"""

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.data.folder import DataError
from worker.data.libsvm.sources import Source, open_source
from worker.data.libsvm.text import Block, Lines, parse_lines

VALUES, COLUMNS, STARTS, LABELS = "values.npy", "columns.npy", "starts.npy", "labels.npy"

_MOST_PROCESSES = 16
_SMALL_BYTES = 4 << 20
_REPORT_SECONDS = 5.0
# A dense entry takes 4 bytes, one of a sparse row 8.
_DENSE_FROM = 0.5


@dataclass(frozen=True)
class Part:
    """What is known of one block after parsing; its arrays lie in a file."""

    file: Path
    rows: int
    entries: int
    width: int
    largest_norm2: float


@dataclass(frozen=True)
class Parsed:
    """What is known of the whole."""

    rows: int
    width: int
    dense: bool
    largest_norm2: float
    """The largest squared Euclidean norm of a row."""
    sha256: str
    """Of the text, decompressed, in hexadecimal."""


def parse(source: Path, folder: Path) -> Parsed:
    """Parse a text file into float32 arrays in ``folder``, which is empty.

    LABELS holds ``[rows]``. Where at least half of the entries are given, VALUES holds
    ``[rows, width]``; else VALUES, COLUMNS (int32) and STARTS (int64) are compressed sparse rows.

    Raises:
        DataError: a line is malformed, there is none at all, or the file cannot be read to its end.
        OSError: there is no space left.
    """
    with open_source(source) as opened:
        parts = list(_parse_parts(source, opened, folder))
    rows, entries = sum(part.rows for part in parts), sum(part.entries for part in parts)
    if not entries:
        raise DataError(f"{source} has no features: is it a file in LIBSVM's format?")
    width = max(part.width for part in parts)
    parsed = Parsed(
        rows=rows,
        width=width,
        dense=entries >= _DENSE_FROM * rows * width,
        largest_norm2=max(part.largest_norm2 for part in parts),
        sha256=opened.sha256,
    )
    print(f"{source.name}: {rows} rows of {width} features; putting them together", flush=True)
    # The old generator: numpy promises that its numbers never change.
    places = np.random.RandomState(0).permutation(rows)
    assemble = _assemble_dense if parsed.dense else _assemble_sparse
    assemble(parsed, parts, places, folder)
    return parsed


def _parse_parts(source: Path, opened: Source, folder: Path) -> Iterator[Part]:
    """Yield the parts in the order of the file, and say now and then how far it is."""
    pool, processes = _make_pool(source)
    started = reported = time.monotonic()
    waiting: deque[Future[Part]] = deque()
    with pool:
        try:
            for number, lines in enumerate(opened.blocks()):
                waiting.append(pool.submit(_parse_part, lines, folder / f"part-{number}"))
                # Bounded: what has been read and waits for a process is in memory.
                if len(waiting) > 2 * processes:
                    yield waiting.popleft().result()
                if time.monotonic() - reported > _REPORT_SECONDS:
                    reported = time.monotonic()
                    print(
                        f"{source.name}: {opened.share_read:.0%} parsed "
                        f"in {reported - started:.0f} s",
                        flush=True,
                    )
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _make_pool(source: Path) -> tuple[Executor, int]:
    """Return what parses blocks, and how many at a time."""
    if source.stat().st_size < _SMALL_BYTES:
        return ThreadPoolExecutor(1), 1  # to start processes would take longer
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )
    return pool, processes


def _end_with_parent() -> None:
    """End this process when the one that started it was killed, which the pool does not notice."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _parse_part(lines: Lines, file: Path) -> Part:
    block = parse_lines(lines)
    with file.open("wb") as out:
        for array in (block.labels, block.starts, block.columns, block.values):
            np.save(out, array)
    norms2 = np.bincount(block.rows_of_entries, weights=block.values.astype(np.float64) ** 2)
    return Part(
        file=file,
        rows=len(block.labels),
        entries=len(block.values),
        width=block.width,
        largest_norm2=float(norms2.max(initial=0.0)),
    )


def _assemble_dense(
    parsed: Parsed, parts: list[Part], places: NDArray[np.int64], folder: Path
) -> None:
    values = _create(folder / VALUES, np.float32, (parsed.rows, parsed.width))
    labels = _create(folder / LABELS, np.float32, (parsed.rows,))
    for block, where in _placed(parts, places):
        rows = np.zeros((len(where), parsed.width), np.float32)
        rows[block.rows_of_entries, block.columns] = block.values
        values[where] = rows
        labels[where] = block.labels
    values.flush()
    labels.flush()


def _assemble_sparse(
    parsed: Parsed, parts: list[Part], places: NDArray[np.int64], folder: Path
) -> None:
    starts = _create(folder / STARTS, np.int64, (parsed.rows + 1,))
    for part, where in zip(parts, _places_of(parts, places), strict=True):
        starts[1 + where] = np.diff(_load(part).starts)
    np.cumsum(starts, out=starts)
    labels = _create(folder / LABELS, np.float32, (parsed.rows,))
    values = _create(folder / VALUES, np.float32, (int(starts[-1]),))
    columns = _create(folder / COLUMNS, np.int32, (int(starts[-1]),))
    for block, where in _placed(parts, places):
        shifts = (starts[where] - block.starts[:-1])[block.rows_of_entries]
        targets = np.arange(len(shifts)) + shifts
        values[targets] = block.values
        columns[targets] = block.columns
        labels[where] = block.labels
    for array in (starts, labels, values, columns):
        array.flush()


def _placed(
    parts: list[Part], places: NDArray[np.int64]
) -> Iterator[tuple[Block, NDArray[np.int64]]]:
    """Yield each part and the places of its rows in the whole, and drop its file."""
    for part, where in zip(parts, _places_of(parts, places), strict=True):
        yield _load(part), where
        part.file.unlink()


def _places_of(parts: list[Part], places: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the places of each part's rows in the whole."""
    return np.split(places, np.cumsum([part.rows for part in parts])[:-1])


def _load(part: Part) -> Block:
    with part.file.open("rb") as file:
        return Block(*(np.load(file) for _ in range(4)))


def _create(path: Path, dtype: type, shape: tuple[int, ...]) -> np.memmap:
    """Create an array of zeros in a file."""
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
