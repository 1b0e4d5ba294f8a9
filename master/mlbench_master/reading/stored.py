"""The samples of an owner by the database: waiting, kept, and which were delivered."""

import re
import threading
import time
from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from peewee import ModelSelect, fn

from mlbench.contract.series import SeriesKey, format_value
from mlbench_master.database.connection import database, snapshot
from mlbench_master.database.models import Deletion, Detail, Series, Stream, UnstorableSample
from mlbench_master.reading.points import (
    Annotation,
    Chunks,
    Points,
    Reader,
    StoredPoint,
    from_points,
    merge,
)
from mlbench_master.reading.promql import PrometheusError
from mlbench_master.reading.selection import BEFORE_ALL_US, Selection
from mlbench_master.reading.windows import Span
from mlbench_master.recording.delivery import BATCH_BYTES
from mlbench_master.recording.limits import waiting_bytes
from mlbench_master.recording.plan import plan
from mlbench_master.recording.samples import MALFORMED, Sample
from mlbench_master.recording.streams import POSTED, parse, read_waiting

# Rows of one query, each of up to 64 KiB. No query stays open between two chunks of an answer.
_ROWS = 1_000
# Points in a chunk of waiting samples.
_POINTS = 10_000
# About a second's work each: searching lines that name a metric, and parsing lines.
_MAX_SEARCHED_BYTES = 64 << 20
_MAX_PARSED_BYTES = 8 << 20
# One thread at a time parses more than a batch, as several would only slow each other down.
_LOCK_SECONDS = 1.0
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Delivered:
    """The samples of a series that Prometheus has."""

    span: Span
    """From the first to the last."""
    samples: int
    """0 if the number is not known."""


@dataclass(slots=True)
class WaitingSamples:
    """Samples of a series that wait for delivery, in little memory."""

    times_us: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: "array[float]" = field(default_factory=lambda: array("d"))
    texts: dict[int, str] = field(default_factory=dict)
    annotations: dict[int, Annotation] = field(default_factory=dict)

    def add(self, sample: Sample, time_us: int) -> None:
        """Add a sample with the time that readers see."""
        i = len(self.times_us)
        self.times_us.append(time_us)
        if isinstance(sample.value, str):
            self.texts[i] = sample.value
            self.numbers.append(0.0)
        else:
            self.numbers.append(sample.value)
        if sample.cumulative is not None or sample.metadata is not None:
            self.annotations[i] = Annotation(sample.cumulative, sample.metadata)

    def read(self) -> Chunks:
        """Yield the samples in order of time."""
        order = sorted(range(len(self.times_us)), key=self.times_us.__getitem__)
        for start in range(0, len(order), _POINTS):
            some = order[start : start + _POINTS]
            yield Points(
                [self.times_us[i] for i in some],
                [self.texts[i] if i in self.texts else format_value(self.numbers[i]) for i in some],
                {
                    new: self.annotations[old]
                    for new, old in enumerate(some)
                    if old in self.annotations
                },
            )


_ALL = Selection()


@dataclass(frozen=True)
class Stored:
    """Snapshot of an owner's samples in the database."""

    owner: str
    delivered: Mapping[SeriesKey, Delivered]
    waiting: Mapping[SeriesKey, WaitingSamples]
    kept: Mapping[SeriesKey, int]
    """The newest id among the kept samples of a series. Later ones were still waiting."""
    details: Mapping[SeriesKey, int]
    """The newest id among the details of a series."""
    selection: Selection = _ALL
    """The requested samples; the stream may have more."""

    @property
    def keys(self) -> set[SeriesKey]:
        """All series with samples anywhere."""
        return {*self.delivered, *self.waiting, *self.kept}

    def check(self) -> None:
        """Raise ``PrometheusError`` if samples were deleted, or rewound for delivery, since."""
        now = _load_delivered(self.owner, self.selection)
        is_less = any(
            key not in now or now[key].samples < had.samples for key, had in self.delivered.items()
        )
        # Rows of a deleted run are left for a while.
        if is_less or Deletion.select().where(Deletion.owner == self.owner).exists():
            raise PrometheusError(
                f"{self.owner} was deleted or delivered anew meanwhile: ask again"
            )

    def merge(self, key: SeriesKey, delivered: Reader | None, after_us: int) -> Chunks:
        """Merge the delivered points of a series from Prometheus with those in the database."""
        chunks = self.read_delivered(key, delivered)
        if key in self.kept:
            chunks = merge(chunks, self.read_kept(key, after_us))
        if key in self.waiting:
            chunks = merge(chunks, self.waiting[key].read())
        return chunks

    def read_delivered(self, key: SeriesKey, delivered: Reader | None) -> Chunks:
        """Yield the delivered points of a series, with the details that were posted with them."""
        chunks = delivered() if delivered else iter(())
        if key in self.details:
            return (self._add_details(key, points) for points in chunks)
        return chunks

    def read_kept(self, key: SeriesKey, after_us: int = BEFORE_ALL_US) -> Chunks:
        """Yield the kept samples of a series that are later than a time, in order of time."""
        if key not in self.kept:
            return
        kept = UnstorableSample
        query = _select(kept, self.owner, key, self.kept[key]).order_by(kept.time_us, kept.id)
        query = query.select(
            kept.time_us, kept.id, kept.value, kept.cumulative, kept.metadata
        ).limit(_ROWS)
        rows = list(database.execute(query.where(kept.time_us > after_us)))
        while rows:
            yield from_points(
                StoredPoint(
                    time_us,
                    value,
                    Annotation(
                        None if cumulative is None else bool(cumulative),
                        metadata and orjson.loads(metadata),
                    ),
                )
                for time_us, _, value, cumulative, metadata in rows
            )
            time_us, newest = rows[-1][:2]
            # Both conditions, so that the database can use the index.
            later = (kept.time_us >= time_us) & ((kept.time_us > time_us) | (kept.id > newest))
            rows = list(database.execute(query.where(later))) if len(rows) == _ROWS else []

    def _add_details(self, key: SeriesKey, points: Points) -> Points:
        """Add to points from Prometheus what was posted along with them."""
        first_ms, last_ms = points.times_us[0] // 1000, points.times_us[-1] // 1000
        rows = _select(Detail, self.owner, key, self.details[key]).where(
            Detail.last_ms >= first_ms, Detail.first_ms <= last_ms
        )
        rows_found = database.execute(rows.select(Detail.samples))
        details = {row[0] // 1000: row for (text,) in rows_found for row in orjson.loads(text)}
        times = list(points.times_us)
        annotations = {}
        for i, ms in enumerate(time_us // 1000 for time_us in points.times_us):
            if ms in details:
                times[i], *rest = details[ms]
                if any(value is not None for value in rest):
                    annotations[i] = Annotation(*rest)
        return Points(times, points.values, annotations)


def load(owner: str, selection: Selection = _ALL) -> Stored:
    """Load the samples of an owner's series, of some or of all, from the database.

    Raises:
        PrometheusError: too many samples are waiting for Prometheus to read them in time.
    """
    with snapshot():
        delivered = _load_delivered(owner, selection)
        last_ms = {key: series.span.last_ms for key, series in delivered.items()}
        return Stored(
            owner,
            delivered,
            _load_waiting(owner, selection, last_ms),
            _newest_ids(UnstorableSample, owner, selection),
            _newest_ids(Detail, owner, selection),
            selection,
        )


def _load_delivered(owner: str, selection: Selection) -> dict[SeriesKey, Delivered]:
    columns = (Series.metric, Series.rank, Series.first_ms, Series.last_ms, Series.samples)
    rows = Series.select(*columns).where(_is_of(Series, owner, selection))
    return {
        (metric, rank): Delivered(Span(first_ms, last_ms), samples)
        for metric, rank, first_ms, last_ms, samples in database.execute(rows.tuples())
    }


def _newest_ids(table: type[Any], owner: str, selection: Selection) -> dict[SeriesKey, int]:
    query = (
        table.select(table.metric, table.rank, fn.MAX(table.id))
        .where(_is_of(table, owner, selection))
        .group_by(table.metric, table.rank)
    )
    return {(metric, rank): newest for metric, rank, newest in database.execute(query)}


def _is_of(table: type[Any], owner: str, selection: Selection) -> Any:
    is_of = table.owner == owner
    # Some databases take few values; who names more series wants most of them.
    if not 0 < len(selection.names) <= _ROWS // 2:
        return is_of
    is_of &= table.metric.in_(list(selection.metrics))
    # The name of a metric may be spelled as one with a rank.
    is_rank = table.rank.in_(list(selection.ranks)) | table.metric.contains("@")
    return is_of & is_rank if selection.ranks else is_of


def _select(table: type[Any], owner: str, key: SeriesKey, newest: int) -> ModelSelect:
    metric, rank = key
    query: ModelSelect = table.select().where(
        table.owner == owner, table.metric == metric, table.rank == rank, table.id <= newest
    )
    return query


def _load_waiting(
    owner: str, selection: Selection, last_ms: dict[SeriesKey, int]
) -> dict[SeriesKey, WaitingSamples]:
    """Parse the samples that wait for delivery, each with the time that it will have later.

    ``last_ms`` has the newest millisecond of each series in Prometheus.
    """
    size = waiting_bytes(owner)
    if size <= BATCH_BYTES:
        return _parse_waiting(owner, selection, last_ms)
    if size > (_MAX_SEARCHED_BYTES if _can_search(selection.metrics) else _MAX_PARSED_BYTES):
        raise _behind(owner, size, "more than can be read")
    if not _parsing.acquire(timeout=_LOCK_SECONDS):
        raise _behind(owner, size, "and others are reading as much")
    try:
        return _parse_waiting(owner, selection, last_ms)
    finally:
        _parsing.release()


def _parse_waiting(
    owner: str, selection: Selection, last_ms: dict[SeriesKey, int]
) -> dict[SeriesKey, WaitingSamples]:
    now_us, metrics = time.time_ns() // 1000, selection.metrics
    waiting: dict[SeriesKey, WaitingSamples] = {}
    for stream, lines in _find_lines(owner, metrics, selection.ranks):
        samples = (
            record
            for record in parse(stream, lines, now_us, metrics)
            if isinstance(record, Sample) and (not metrics or record.metric in metrics)
        )
        planned = plan(samples, last_ms, now_us // 1000)
        for key, to_send in planned.send.items():
            last_ms[key] = to_send[-1].time_us // 1000
            for sample in to_send:
                # Prometheus has milliseconds. Only samples with details keep their microseconds.
                is_exact = stream.name == POSTED or sample.metadata is not None
                at_us = sample.time_us if is_exact else sample.time_us // 1000 * 1000
                waiting.setdefault(key, WaitingSamples()).add(sample, at_us)
        for sample in planned.keep:
            waiting.setdefault(sample[:2], WaitingSamples()).add(sample, sample.time_us)
    return waiting


def _find_lines(
    owner: str, metrics: Collection[str], ranks: Collection[str]
) -> list[tuple[Stream, bytes]]:
    """Return the waiting lines that may have a metric of a rank, batch by batch."""
    batches: list[tuple[Stream, bytes]] = []
    size = 0
    rank = next(iter(ranks)) if len(ranks) == 1 else ""
    # A line with a backslash may spell any name.
    plain = [re.escape(orjson.dumps(metric)[1:-1]) for metric in metrics]
    named = re.compile(b"|".join([rb"\\", *plain])) if _can_search(metrics) else None
    # Read the same batches in which delivery will read them.
    for stream, batch in read_waiting(owner, BATCH_BYTES, rank):
        if named is None:
            lines = batch
        elif named.search(batch):
            lines = b"".join(filter(named.search, batch.splitlines(keepends=True)))
        else:
            lines = b""
        batches.append((stream, lines))
        size += len(lines)
        if size > _MAX_PARSED_BYTES:
            raise _behind(owner, size, "more than can be read")
    return batches


def _can_search(metrics: Collection[str]) -> bool:
    """Tell if the lines of these metrics name them; malformed lines do not."""
    return bool(metrics) and MALFORMED not in metrics


def _behind(owner: str, size: int, why: str) -> PrometheusError:
    return PrometheusError(
        f"{size:,} bytes of samples of {owner.replace('/', ' ')} wait for Prometheus, which is "
        f"behind, {why}: ask again later, or for fewer metrics; nothing is lost"
    )
