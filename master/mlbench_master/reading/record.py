"""The record of a run, or the posted samples of a pod: every sample, exactly as it was recorded.

``LiveRecord`` reads the blocks of the database, and the lines that are not indexed yet.
``SealedRecord`` reads an archive. Both have the same interface.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from mlbench.archive import Archive, SeriesName
from mlbench_master.database.connection import run_sql, snapshot
from mlbench_master.errors import ServiceUnavailableError
from mlbench_master.reading.points import Series, merge
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US, Selection
from mlbench_master.recording import blocks
from mlbench_master.recording.blocks import Note, Samples, texts_among
from mlbench_master.recording.indexing import BATCH_BYTES
from mlbench_master.recording.samples import Sample
from mlbench_master.recording.streams import parse, read_waiting, waiting_bytes

_COUNTS = """
    SELECT metric, SUM(samples), SUM(exported), SUM(CASE WHEN exported IS NULL THEN 1 ELSE 0 END),
        MAX(CASE WHEN is_posted THEN 1 ELSE 0 END)
    FROM block WHERE owner = ? {} GROUP BY metric
"""
_READ = """
    SELECT samples, exported, only_here, CASE WHEN last_us > ? AND first_us <= ? THEN data END
    FROM block WHERE owner = ? AND metric = ? ORDER BY id
"""


# About a second's work.
_MAX_TAIL_BYTES = 16 << 20
left_out: ContextVar[int] = ContextVar("left_out", default=0)
"""Bytes of received lines that the records of the current request lack."""


class MovedError(ServiceUnavailableError):
    """A record was sealed or deleted while it was read."""


class Record(Protocol):
    """The samples of one owner, and which of them Prometheus has."""

    @property
    def metrics(self) -> Sequence[str]:
        """Metrics with samples, in order of their names."""

    def read(self, metric: str, after_us: int, until_us: int) -> Mapping[str, Series]:
        """Return the samples of a metric by rank, in order of time.

        They include all that are later than ``after_us`` and not later than ``until_us``.
        """

    def others(self, metric: str) -> Mapping[str, Series]:
        """Return the samples of a metric that Prometheus cannot hold or has refused, by rank."""

    def in_prometheus(self, metric: str) -> int | None:
        """Return how many samples of a metric Prometheus has accepted; None if some wait for it.

        Also None if clients posted some of them, whose times have microseconds, or if some have
        metadata.
        """


class LiveRecord:
    """The record of an owner whose blocks are in the database."""

    def __init__(self, owner: str, selection: Selection = Selection()) -> None:  # noqa: B008
        self._owner = owner
        wanted = sorted(selection.metrics)
        among = f"AND metric IN ({', '.join('?' * len(wanted))})" if wanted else ""
        with snapshot():
            rows = run_sql(_COUNTS.format(among), owner, *wanted).fetchall()
            self._counts = {metric: counts for metric, *counts in rows}
            self._tail = _tail(owner, selection)

    @property
    def metrics(self) -> Sequence[str]:
        """Metrics with samples, in order of their names."""
        return sorted({*self._counts, *self._tail})

    def read(self, metric: str, after_us: int, until_us: int) -> Mapping[str, Series]:
        """Return the samples of a metric by rank, in order of time."""
        parts = [samples for samples, _ in self._blocks(metric, after_us, until_us)]
        if tail := self._tail.get(metric):
            parts.append(blocks.from_samples(tail))
        return _by_rank(parts)

    def others(self, metric: str) -> Mapping[str, Series]:
        """Return the samples of a metric that Prometheus cannot hold or has refused, by rank."""
        recorded, exported, *_ = self._counts.get(metric, (0, 0))
        return {} if recorded == exported else self.split(metric)[1]

    def split(self, metric: str) -> tuple[Mapping[str, Series], Mapping[str, Series]]:
        """Return the samples of a metric that are not among the others, then the others, by rank.

        Each sample is in one of them, even if its block is exported meanwhile.
        """
        sent, others = [], []
        for samples, here in self._blocks(metric, BEFORE_ALL_US, AFTER_ALL_US):
            others.append(samples.take(np.array(here, np.int64)))
            is_sent = np.delete(np.arange(len(samples)), here)
            sent.append(samples.take(is_sent) if here else samples)
        return _by_rank(sent), _by_rank(others)

    def _blocks(
        self, metric: str, after_us: int, until_us: int
    ) -> Iterator[tuple[Samples, Sequence[int]]]:
        """Yield the samples of blocks, and the positions of those that Prometheus does not have.

        Blocks only grow, at the end, so the first samples are those of the snapshot.
        """
        [left, *_] = self._counts.get(metric, [0])
        rows = run_sql(_READ, after_us, until_us, self._owner, metric) if left else ()
        for count, exported, only_here, data in list(rows):
            if data is not None and left:
                samples = blocks.decode(bytes(data), count)
                here = json.loads(only_here) if only_here else []
                if exported is None:
                    here = texts_among(samples.notes)
                if count > left:
                    samples, here = samples.take(np.arange(left)), [i for i in here if i < left]
                yield samples, here
            left = max(0, left - count)
        if left:
            raise MovedError(f"{self._owner} was sealed or deleted meanwhile: ask again")

    def in_prometheus(self, metric: str) -> int | None:
        """Return how many samples of a metric Prometheus has accepted; None if some wait for it."""
        if metric in self._tail or metric not in self._counts:
            return None
        _, exported, waiting, is_posted = self._counts[metric]
        return None if waiting or is_posted else exported


class SealedRecord:
    """The record of a run, or of one of its pods, in an archive."""

    def __init__(self, archive: Archive, pod: str = "") -> None:
        self._archive = archive
        self._pod = pod
        self._by_metric: dict[str, list[SeriesName]] = {}
        for name in archive.series:
            if name.pod == pod:
                self._by_metric.setdefault(name.metric, []).append(name)

    @property
    def metrics(self) -> Sequence[str]:
        """Metrics with samples, in order of their names."""
        return sorted(self._by_metric)

    def read(self, metric: str, after_us: int, until_us: int) -> Mapping[str, Series]:
        """Return all samples of a metric by rank, in order of time."""
        return {
            name.rank: merge([*map(_of_piece, self._archive.read(name))])
            for name in self._by_metric.get(metric, ())
        }

    def others(self, metric: str) -> Mapping[str, Series]:
        """Return the samples of a metric that Prometheus cannot hold or has refused, by rank."""
        return {
            name.rank: merge([*map(_of_piece, self._archive.read(name, kept=True))])
            for name in self._by_metric.get(metric, ())
            if self._archive.series[name].kept
        }

    def in_prometheus(self, metric: str) -> int | None:
        """Return how many samples of a metric Prometheus has accepted; None if some were posted."""
        names = self._by_metric.get(metric, ())
        if not all(name.rank for name in names):
            return None
        return sum(self._archive.series[name].samples for name in names)


def _by_rank(parts: list[Samples]) -> dict[str, Series]:
    """Join samples, and split them into series in order of time; of one time, of arrival.

    The list is emptied, so that the data of its blocks are freed before sorting copies them.
    """
    samples = blocks.join(parts)
    parts.clear()
    if not len(samples):
        return {}
    # Sorting 16 bits is fast, and each rank's samples are in order of time already, nearly always.
    short = np.int16 if len(samples.rank_names) < 1 << 15 else np.int32
    samples = samples.take(np.argsort(samples.ranks.astype(short), kind="stable"))
    times, ranks = samples.times_us, samples.ranks
    if np.any((times[1:] < times[:-1]) & (ranks[1:] == ranks[:-1])):
        samples = samples.take(np.lexsort((times, ranks)))
    starts = np.flatnonzero(np.diff(samples.ranks, prepend=-1)).tolist()
    found = {}
    for start, end in pairwise([*starts, len(samples)]):
        notes = blocks.pick(samples.notes, np.arange(start, end))
        series = Series(samples.times_us[start:end], samples.values[start:end], notes)
        found[samples.rank_names[samples.ranks[start]]] = series
    return found


def _tail(owner: str, selection: Selection) -> dict[str, list[Sample]]:
    """Parse the lines that are not indexed yet, and return the samples of the wanted metrics.

    If the controller is far behind, they are left out: parsing them would take too long.
    """
    now_us, metrics = time.time_ns() // 1000, selection.metrics
    tail: dict[str, list[Sample]] = {}
    if leaves_out(waiting_bytes(owner, selection.rank)):
        return tail
    for stream, lines in read_waiting(owner, BATCH_BYTES, selection.rank):
        for sample in parse(stream, lines, now_us, metrics).samples:
            if not metrics or sample.metric in metrics:
                tail.setdefault(sample.metric, []).append(sample)
    return tail


def leaves_out(waiting: int) -> bool:
    """Check if so many bytes of lines are left out, and note that for ``left_out``."""
    if waiting <= _MAX_TAIL_BYTES:
        return False
    left_out.set(left_out.get() + waiting)
    return True


def _of_piece(piece: Any) -> Series:
    notes = {i: Note(*more) for i, more in piece.more.items()}
    return Series(np.frombuffer(piece.times_us, np.int64), np.frombuffer(piece.values), notes)
