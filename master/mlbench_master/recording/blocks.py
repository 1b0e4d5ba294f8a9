"""Blocks: the recorded samples of one metric as columns, written once and read by everyone.

A block has samples of all ranks, in the order in which they arrived. Its data are three arrays
(rank, time, value) and a JSON text with what few samples have: texts, ``cumulative`` and
``metadata``. A batch of lines becomes a block for each metric. Once exported, a block is appended
to the one before it while that is small, so that a slow run does not have a block for each step.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from mlbench.archive import More
from mlbench_master.database.connection import run_many, run_sql
from mlbench_master.recording.samples import Sample

Value = TypeVar("Value")

# Samples of a block below which the next block is appended to it.
_SMALL = 512
_ADD = """
    INSERT INTO block (owner, metric, first_us, last_us, samples, is_posted, data)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_WAITS = "SELECT 1 FROM block WHERE id = ? AND samples = ? AND exported IS NULL"
_EXPORTED = "UPDATE block SET exported = ?, only_here = ? WHERE id = ?"
_BEFORE = """
    SELECT id, samples, only_here,
        CASE WHEN samples <= ? AND is_posted = ? AND exported IS NOT NULL THEN data END FROM block
    WHERE owner = ? AND metric = ? AND id < ? ORDER BY id DESC LIMIT 1
"""
_EXTEND = """
    UPDATE block SET samples = ?, first_us = ?, last_us = ?, exported = ?, only_here = ?, data = ?
    WHERE id = ?
"""
_DELETE = "DELETE FROM block WHERE id = ?"


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
    more: Mapping[int, More] = field(default_factory=dict)
    """Optional fields, by the position of their sample."""

    def __len__(self) -> int:
        return len(self.times_us)

    @property
    def is_text(self) -> NDArray[np.bool_]:
        """Whether the value of each sample is a text."""
        is_text = np.zeros(len(self), bool)
        is_text[[i for i, more in self.more.items() if more.text is not None]] = True
        return is_text

    def take(self, positions: NDArray[np.int64]) -> "Samples":
        """Return the samples at these positions, in their order."""
        return Samples(
            self.rank_names,
            self.ranks[positions],
            self.times_us[positions],
            self.values[positions],
            pick(self.more, positions),
        )


def pick(fields: Mapping[int, Value], positions: NDArray[np.int64]) -> dict[int, Value]:
    """Return optional fields of the samples at some positions, by their new positions."""
    if not fields:
        return {}
    return {new: fields[old] for new, old in enumerate(positions.tolist()) if old in fields}


def from_samples(samples: Sequence[Sample]) -> Samples:
    """Return samples of one metric as columns."""
    names = dict.fromkeys(sample.rank for sample in samples)
    positions = {name: i for i, name in enumerate(names)}
    count = len(samples)
    values = np.empty(count, np.float64)
    more = {}
    for i, sample in enumerate(samples):
        is_text = isinstance(sample.value, str)
        values[i] = np.nan if is_text else sample.value
        if is_text or sample.cumulative is not None or sample.metadata is not None:
            text = sample.value if isinstance(sample.value, str) else None
            more[i] = More(text, sample.cumulative, sample.metadata)
    return Samples(
        list(names),
        np.fromiter((positions[sample.rank] for sample in samples), np.int32, count),
        np.fromiter((sample.time_us for sample in samples), np.int64, count),
        values,
        more,
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
        has_metadata = any(fields[1:] != (None, None) for fields in columns.more.values())
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
    rest = orjson.dumps([samples.rank_names, [[i, *more] for i, more in samples.more.items()]])
    return b"".join([*(column.tobytes() for column in columns), rest])


def decode(data: bytes, count: int) -> Samples:
    """Return the samples of a block with so many of them."""
    names, more = orjson.loads(data[20 * count :])
    return Samples(
        names,
        np.frombuffer(data, "<i4", count),
        np.frombuffer(data, "<i8", count, 4 * count),
        np.frombuffer(data, "<f8", count, 12 * count),
        {i: More(*fields) for i, *fields in more},
    )


def join(parts: Sequence[Samples]) -> Samples:
    """Return the samples of several parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    names: dict[str, int] = {}
    ranks, more, start = [], {}, 0
    for part in parts:
        codes = [names.setdefault(name, len(names)) for name in part.rank_names]
        ranks.append(np.array(codes or [0], np.int32)[part.ranks])
        more.update({start + i: fields for i, fields in part.more.items()})
        start += len(part)
    none: list[NDArray[Any]] = [np.empty(0)]
    return Samples(
        list(names),
        np.concatenate(ranks or none).astype(np.int32),
        np.concatenate([part.times_us for part in parts] or none).astype(np.int64),
        np.concatenate([part.values for part in parts] or none).astype(np.float64),
        more,
    )


@dataclass(frozen=True)
class Block:
    """A row of the table, with its samples."""

    id: int
    metric: str
    is_posted: bool
    samples: Samples


def store_exported(owner: str, block: Block, only_here: Sequence[int]) -> None:
    """Mark a block of an owner, which must be locked, as exported.

    While it is small, and the block before it is smaller, both become one; so each sample is
    written again only a few times. Nothing changes if another controller has stored it meanwhile.

    Args:
        owner: whose block it is.
        block: the block.
        only_here: ascending positions of the samples that Prometheus does not have.
    """
    samples, here = block.samples, list(only_here)
    if run_sql(_WAITS, block.id, len(samples)).fetchone() is None:
        return
    merged: list[int] = []
    while len(samples) < _SMALL:
        first_id = merged[-1] if merged else block.id
        mergeable = len(samples), block.is_posted
        before = run_sql(_BEFORE, *mergeable, owner, block.metric, first_id).fetchone()
        if before is None or before[3] is None:
            break
        id_, count, positions, data = before
        samples = join([decode(bytes(data), count), samples])
        here = [*(json.loads(positions) if positions else ()), *(count + i for i in here)]
        merged.append(id_)
    exported = len(samples) - len(here), json.dumps(here) if here else None
    if not merged:
        run_sql(_EXPORTED, *exported, block.id)
        return
    times = int(samples.times_us.min()), int(samples.times_us.max())
    run_sql(_EXTEND, len(samples), *times, *exported, encode(samples), merged[-1])
    run_many(_DELETE, [(id_,) for id_ in (*merged[:-1], block.id)])
