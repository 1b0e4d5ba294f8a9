"""What the database holds of an owner's samples, as it was at one moment."""

import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from peewee import ModelSelect, fn

from master.database import database, snapshot
from master.models import Detail, KeptSample, Series, Stream
from master.reading.points import Note, Pieces, Point, Points, from_points
from master.reading.promql import PrometheusError
from master.reading.windows import Span
from master.recording.delivery import BATCH_BYTES
from master.recording.plan import plan
from master.recording.samples import Sample, SeriesKey, spell
from master.recording.streams import POSTED, parse, read_lines
from master.recording.streams import waiting as waiting_streams

# Rows of one query: no query stays open between two pieces of an answer.
_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Delivered:
    """What Prometheus has of a series."""

    first_ms: int
    last_ms: int
    samples: int
    """How many; 0 if that is not known."""

    @property
    def span(self) -> Span:
        """From the first to the last."""
        return Span(self.first_ms, self.last_ms)


@dataclass(slots=True)
class Waiting:
    """Samples of one series that wait for delivery, in little memory."""

    times_us: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: "array[float]" = field(default_factory=lambda: array("d"))
    texts: dict[int, str] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)

    def add(self, sample: Sample, time_us: int) -> None:
        """Add a sample, to be shown with this time."""
        i = len(self.times_us)
        self.times_us.append(time_us)
        if isinstance(sample.value, str):
            self.texts[i] = sample.value
            self.numbers.append(0.0)
        else:
            self.numbers.append(sample.value)
        if sample.cumulative is not None or sample.metadata is not None:
            self.notes[i] = Note(sample.cumulative, sample.metadata)

    def read(self) -> Pieces:
        """Yield the samples in order of time."""
        order = sorted(range(len(self.times_us)), key=self.times_us.__getitem__)
        for start in range(0, len(order), _ROWS):
            some = order[start : start + _ROWS]
            yield Points(
                [self.times_us[i] for i in some],
                [self.texts[i] if i in self.texts else spell(self.numbers[i]) for i in some],
                {new: self.notes[old] for new, old in enumerate(some) if old in self.notes},
            )


@dataclass(frozen=True)
class Stored:
    """What the database knew of an owner's samples."""

    owner: str
    delivered: Mapping[SeriesKey, Delivered]
    waiting: Mapping[SeriesKey, Waiting]
    kept: Mapping[SeriesKey, int]
    """By series: the newest id among its kept samples. Later ones were waiting."""
    details: Mapping[SeriesKey, int]
    """The same of its details."""

    @property
    def keys(self) -> set[SeriesKey]:
        """All series that have samples anywhere."""
        return {*self.delivered, *self.waiting, *self.kept}

    def check(self) -> None:
        """Make sure that nothing of it was taken away since, as deletion and rewinding do.

        Raises:
            PrometheusError: something was.
        """
        now = _delivered(self.owner)
        if any(
            key not in now or now[key].samples < had.samples for key, had in self.delivered.items()
        ):
            raise PrometheusError(
                f"{self.owner} was deleted or delivered anew meanwhile: ask again"
            )

    def read_kept(self, key: SeriesKey, after_us: int) -> Pieces:
        """Yield the kept samples of a series that are later than a time, in order of time."""
        if key not in self.kept:
            return
        kept = KeptSample
        query = _select(kept, self.owner, key, self.kept[key]).order_by(kept.time_us, kept.id)
        query = query.select(
            kept.time_us, kept.id, kept.value, kept.cumulative, kept.metadata
        ).limit(_ROWS)
        rows = list(database.execute(query.where(kept.time_us > after_us)))
        while rows:
            yield from_points(
                Point(time_us, value, _flag(cumulative), _json(metadata))
                for time_us, _, value, cumulative, metadata in rows
            )
            time_us, newest = rows[-1][:2]
            # Both, so that the database can begin where the last rows ended.
            later = (kept.time_us >= time_us) & ((kept.time_us > time_us) | (kept.id > newest))
            rows = list(database.execute(query.where(later))) if len(rows) == _ROWS else []

    def with_details(self, key: SeriesKey, points: Points) -> Points:
        """Return points from Prometheus with what was posted along with them."""
        if key not in self.details:
            return points
        first_ms, last_ms = points.times_us[0] // 1000, points.times_us[-1] // 1000
        rows = _select(Detail, self.owner, key, self.details[key]).where(
            Detail.last_ms >= first_ms, Detail.first_ms <= last_ms
        )
        found = database.execute(rows.select(Detail.samples))
        details = {one[0] // 1000: one for (text,) in found for one in orjson.loads(text)}
        times = list(points.times_us)
        notes = {}
        for i, ms in enumerate(time_us // 1000 for time_us in points.times_us):
            if ms in details:
                times[i], cumulative, metadata = details[ms]
                if cumulative is not None or metadata is not None:
                    notes[i] = Note(cumulative, metadata)
        return Points(times, points.values, notes)


def look(owner: str) -> Stored:
    """Return what the database holds of an owner's samples now."""
    with snapshot():
        delivered = _delivered(owner)
        return Stored(
            owner,
            delivered,
            _waiting(owner, {key: one.last_ms for key, one in delivered.items()}),
            _newest(KeptSample, owner),
            _newest(Detail, owner),
        )


def _delivered(owner: str) -> dict[SeriesKey, Delivered]:
    return {
        (row.metric, row.rank): Delivered(row.first_ms, row.last_ms, row.samples)
        for row in Series.select().where(Series.owner == owner)
    }


def _waiting(owner: str, last_ms: dict[SeriesKey, int]) -> dict[SeriesKey, Waiting]:
    """Return what waits. Each sample has the time that it will have once it is delivered."""
    now_us = time.time_ns() // 1000
    waiting: dict[SeriesKey, Waiting] = {}
    for stream in waiting_streams(owner):
        for data in _batches(stream):
            parsed = parse(stream, data, now_us)
            planned = plan(
                (item for item in parsed if isinstance(item, Sample)), last_ms, now_us // 1000
            )
            for key, samples in planned.send.items():
                last_ms[key] = samples[-1].time_us // 1000
                for sample in samples:
                    # Prometheus's times are milliseconds; those of posted samples are kept beside.
                    finer = 0 if stream.name == POSTED else sample.time_us % 1000
                    waiting.setdefault(key, Waiting()).add(sample, sample.time_us - finer)
            for sample in planned.keep:
                waiting.setdefault(sample[:2], Waiting()).add(sample, sample.time_us)
    return waiting


def _batches(stream: Stream) -> Iterator[bytes]:
    """Yield the lines that wait in a stream, in the pieces in which they will be delivered."""
    position, length = stream.delivered, BATCH_BYTES
    while position < stream.size:
        lines = read_lines(stream, position, position + length)
        if lines:
            yield lines
            position, length = position + len(lines), BATCH_BYTES
        elif position + length < stream.size:
            length *= 2
        else:
            return


def _select(table: type[Any], owner: str, key: SeriesKey, newest: int) -> ModelSelect:
    metric, rank = key
    query: ModelSelect = table.select().where(
        table.owner == owner, table.metric == metric, table.rank == rank, table.id <= newest
    )
    return query


def _newest(table: type[Any], owner: str) -> dict[SeriesKey, int]:
    query = (
        table.select(table.metric, table.rank, fn.MAX(table.id))
        .where(table.owner == owner)
        .group_by(table.metric, table.rank)
    )
    return {(metric, rank): newest for metric, rank, newest in database.execute(query)}


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
