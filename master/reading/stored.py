"""What the database holds of an owner's samples, as it was at one moment."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from peewee import ModelSelect, fn

from master.database import database, snapshot
from master.models import Deletion, Detail, KeptSample, Series
from master.reading.points import Note, Pieces, Point, Points, from_points
from master.reading.promql import PrometheusError
from master.reading.waiting import Waiting, read_waiting
from master.reading.windows import Span
from master.recording.samples import SeriesKey

# Rows of one query: no query stays open between two pieces of an answer. Each may be of 64 KiB.
_ROWS = 1_000


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
    metrics: Collection[str] = ()
    """Of which metrics this is; of all, if of none."""

    @property
    def keys(self) -> set[SeriesKey]:
        """All series that have samples anywhere."""
        return {*self.delivered, *self.waiting, *self.kept}

    def check(self) -> None:
        """Make sure that nothing of it was taken away since, as deletion and rewinding do.

        Raises:
            PrometheusError: something was.
        """
        now = _delivered(self.owner, self.metrics)
        is_less = any(
            key not in now or now[key].samples < had.samples for key, had in self.delivered.items()
        )
        # What is left of a deleted run is swept bit by bit.
        if is_less or Deletion.select().where(Deletion.owner == self.owner).exists():
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


def look(owner: str, metrics: Collection[str] = ()) -> Stored:
    """Return what the database holds now of an owner's samples: of these metrics, or of all.

    Raises:
        BehindError: too much waits for Prometheus.
    """
    with snapshot():
        delivered = _delivered(owner, metrics)
        return Stored(
            owner,
            delivered,
            read_waiting(owner, metrics, {key: one.last_ms for key, one in delivered.items()}),
            _newest(KeptSample, owner, metrics),
            _newest(Detail, owner, metrics),
            metrics,
        )


def _delivered(owner: str, metrics: Collection[str]) -> dict[SeriesKey, Delivered]:
    rows = Series.select().where(_belongs(Series, owner, metrics))
    return {
        (row.metric, row.rank): Delivered(row.first_ms, row.last_ms, row.samples) for row in rows
    }


def _belongs(table: type[Any], owner: str, metrics: Collection[str]) -> Any:
    belongs = table.owner == owner
    # Some databases take few values; who names more metrics wants most of what there is.
    return belongs & table.metric.in_(list(metrics)) if 0 < len(metrics) <= _ROWS else belongs


def _select(table: type[Any], owner: str, key: SeriesKey, newest: int) -> ModelSelect:
    metric, rank = key
    query: ModelSelect = table.select().where(
        table.owner == owner, table.metric == metric, table.rank == rank, table.id <= newest
    )
    return query


def _newest(table: type[Any], owner: str, metrics: Collection[str]) -> dict[SeriesKey, int]:
    query = (
        table.select(table.metric, table.rank, fn.MAX(table.id))
        .where(_belongs(table, owner, metrics))
        .group_by(table.metric, table.rank)
    )
    return {(metric, rank): newest for metric, rank, newest in database.execute(query)}


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
