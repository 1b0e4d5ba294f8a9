"""Blocks: the recorded samples of one metric as columns, written once and read by everyone.

A block has samples of all ranks, in the order in which they arrived. Its data are three arrays
(rank, time, value) and a JSON text with what few samples have: texts, ``cumulative`` and
``metadata``. A batch of lines becomes a block for each metric. Small blocks are joined once they
are exported, so that a slow run does not have a block for each step.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import dropwhile, takewhile
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from mlbench_master.database.connection import run_many, run_sql
from mlbench_master.recording.samples import Sample

# A longer end of a block's data, with texts or metadata, is parsed each time.
_MAX_REMEMBERED_BYTES = 16 << 10
# Blocks with fewer samples are small. They are joined once a metric has this many: more are more
# rows to read, and with fewer, each sample is written more often.
SMALL = 512
JOINED_AT_ONCE = 16
_ADD = """
    INSERT INTO block (owner, metric, first_us, last_us, samples, is_posted, data)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_LAST = """
    SELECT id, is_posted, samples, only_here,
        CASE WHEN samples < ? AND exported IS NOT NULL THEN data END
    FROM block WHERE owner = ? AND metric = ? ORDER BY id DESC LIMIT ?
"""
_EXTEND = """
    UPDATE block SET samples = ?, first_us = ?, last_us = ?, exported = ?, only_here = ?, data = ?
    WHERE id = ?
"""


class Note(NamedTuple):
    """The optional fields of a sample or a point."""

    text: str | None = None
    """Value of a sample that is a text; None for a number, and for a point."""
    cumulative: bool | None = None
    metadata: Any = None
    added: bool = False
    """Whether it arrived after the end of its run."""
    minimum: str | None = None
    """The smallest finite number of an average, as ``maximum`` is the largest."""
    maximum: str | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one metric as columns of the same length."""

    rank_names: Sequence[str]
    """The ranks that occur; empty text for samples without a rank."""
    ranks: NDArray[np.int32]
    """Position in ``rank_names`` of each sample's rank."""
    times_us: NDArray[np.int64]
    """Microseconds since 1970."""
    values: NDArray[np.float64]
    """Numbers; NaN for a text."""
    notes: Mapping[int, Note] = field(default_factory=dict)
    """Optional fields, by the position of their sample."""

    def __len__(self) -> int:
        return len(self.times_us)

    def take(self, positions: NDArray[np.int64]) -> "Samples":
        """Return the samples at these positions, in their order."""
        return Samples(
            self.rank_names,
            self.ranks[positions],
            self.times_us[positions],
            self.values[positions],
            pick(self.notes, positions),
        )


def pick(notes: Mapping[int, Note], positions: NDArray[np.int64]) -> dict[int, Note]:
    """Return the notes on the samples at some positions, by their new positions."""
    if not notes:
        return {}
    return {new: notes[old] for new, old in enumerate(positions.tolist()) if old in notes}


def texts_among(notes: Mapping[int, Note]) -> list[int]:
    """Return the positions of the samples whose value is a text."""
    return [i for i, note in notes.items() if note.text is not None]


def from_samples(samples: Sequence[Sample]) -> Samples:
    """Return samples of one metric as columns."""
    _, ranks, times_us, values, cumulative, metadata = zip(*samples, strict=True)
    positions = {rank: i for i, rank in enumerate(dict.fromkeys(ranks))}
    texts = [value if isinstance(value, str) else None for value in values]
    notes = {
        i: Note(*fields)
        for i, fields in enumerate(zip(texts, cumulative, metadata, strict=True))
        if fields != (None, None, None)
    }
    return Samples(
        list(positions),
        np.array([positions[rank] for rank in ranks], np.int32),
        np.array(times_us, np.int64),
        np.array([math.nan if isinstance(value, str) else value for value in values]),
        notes,
    )


def add(owner: str, samples: Iterable[Sample], *, is_posted: bool) -> None:
    """Write samples of an owner, which must be locked, as a block for each metric."""
    by_metric: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_metric[sample.metric].append(sample)
    rows = []
    for metric, of_metric in by_metric.items():
        columns = from_samples(of_metric)
        times = columns.times_us
        first_us, last_us = int(times.min()), int(times.max())
        has_metadata = any(note[1:3] != (None, None) for note in columns.notes.values())
        row = owner, metric, first_us, last_us, len(columns), is_posted or has_metadata
        rows.append((*row, encode(columns)))
    if rows:
        run_many(_ADD, rows)


def encode(samples: Samples) -> bytes:
    """Return the data of a block."""
    columns = (
        samples.ranks.astype("<i4"),
        samples.times_us.astype("<i8"),
        samples.values.astype("<f8"),
    )
    # NaN in metadata cannot be: JSON has none.
    rest = orjson.dumps([samples.rank_names, [[i, *note[:3]] for i, note in samples.notes.items()]])
    return b"".join([*(column.tobytes() for column in columns), rest])


# Blocks of a thousand ranks end with the same names of ranks.
_read_rest = lru_cache(64)(orjson.loads)


def decode(data: bytes, count: int) -> Samples:
    """Return the samples of a block with so many of them."""
    rest = data[20 * count :]
    names, notes = (_read_rest if len(rest) < _MAX_REMEMBERED_BYTES else orjson.loads)(rest)
    return Samples(
        names,
        np.frombuffer(data, "<i4", count),
        np.frombuffer(data, "<i8", count, 4 * count),
        np.frombuffer(data, "<f8", count, 12 * count),
        {i: Note(*fields) for i, *fields in notes},
    )


def join(parts: Sequence[Samples]) -> Samples:
    """Return the samples of several parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    names: dict[str, int] = {}
    # Of the same names, as many blocks have, the positions are looked up once.
    codes: dict[int, NDArray[np.int32]] = {}
    ranks, notes, start = [], {}, 0
    for part in parts:
        if id(part.rank_names) not in codes:
            found = [names.setdefault(name, len(names)) for name in part.rank_names]
            codes[id(part.rank_names)] = np.array(found or [0], np.int32)
        ranks.append(codes[id(part.rank_names)][part.ranks])
        notes.update({start + i: note for i, note in part.notes.items()})
        start += len(part)
    return Samples(
        list(names),
        np.concatenate([np.empty(0, np.int32), *ranks]),
        np.concatenate([np.empty(0, np.int64), *(part.times_us for part in parts)]),
        np.concatenate([np.empty(0), *(part.values for part in parts)]),
        notes,
    )


@dataclass(frozen=True)
class Block:
    """A row of the table, with its samples."""

    id: int
    metric: str
    samples: Samples


def store_exported(exported: Iterable[tuple[Block, Sequence[int]]]) -> None:
    """Mark blocks of an owner, which must be locked, as exported.

    Nothing changes if another controller has done so meanwhile.

    Args:
        exported: blocks, with the ascending positions of samples that Prometheus does not have.
    """
    rows = [
        (len(block.samples) - len(here), json.dumps(here) if here else None, block.id)
        for block, here in exported
    ]
    run_many("UPDATE block SET exported = ?, only_here = ? WHERE id = ? AND exported IS NULL", rows)


def join_small(owner: str, metric: str) -> None:
    """Join the last small blocks of a metric, whose owner must be locked.

    Only blocks that were exported, and that follow each other: samples stay in their order.
    """
    rows = run_sql(_LAST, SMALL, owner, metric, 2 * JOINED_AT_ONCE).fetchall()
    rows = list(dropwhile(lambda row: not row[-1], rows))  # those that are not exported yet
    rows = list(takewhile(lambda row: row[-1] and row[1] == rows[0][1], rows))
    if len(rows) < 2:
        return
    parts, here, count = [], list[int](), 0
    for _, _, size, positions, data in reversed(rows):
        parts.append(decode(bytes(data), size))
        here += [count + i for i in json.loads(positions or "[]")]
        count += size
    samples = join(parts)
    times = int(samples.times_us.min()), int(samples.times_us.max())
    exported = count - len(here), json.dumps(here) if here else None
    *others, first = (row[0] for row in rows)
    run_sql(_EXTEND, count, *times, *exported, encode(samples), first)
    run_many("DELETE FROM block WHERE id = ?", [(other,) for other in others])
