"""Reading a run's or a pod's samples: from Prometheus, from what still waits, from what is kept."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from peewee import fn

from master.models import KeptSample, Run, Series, Stream, database, pod_owner, run_owner
from master.reading.promql import Found, PrometheusClient, quote
from master.recording.samples import Sample, parse_lines, spell
from master.recording.streams import METRICS, NO_RANK, POSTED, read
from mlbench import names

# Resource figures of a pod, as the exporter names them.
_POD_SERIES = "container_.+"
# A pod's own story begins at most this long ago, as Prometheus keeps no more by default.
_RETENTION_SECONDS = 15 * 24 * 3600


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A value at a time; numbers are spelled as Prometheus spells them."""

    time_us: int
    value: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which samples a reader wants."""

    since_us: int = 0
    """Only samples newer than this."""
    metric: str = ""
    """Only this metric, of any rank; empty for all."""
    last_n: int | None = None
    """Only this many of each series, the newest."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database knows of an owner's samples, at one moment."""

    waiting: list[Sample]
    kept: list[Sample]
    first_ms: int | None
    last_ms: int


SeriesByName = dict[str, list[Point]]


@dataclass(frozen=True)
class SeriesReader:
    """Merges all places where a sample can be, in time order."""

    prometheus: PrometheusClient

    def run(self, run: Run, selection: Selection) -> SeriesByName:
        """Return a run's series by name: ``train_loss @ 0`` for a rank's, else ``train_loss``.

        Raises:
            PrometheusError: Prometheus gives no answer.
        """
        selector = f"{names.RUN_METRIC}{{run_id={quote(str(run.id))}"
        return self._merge(run_owner(run.id), selector, selection)

    def pod(self, pod: str, selection: Selection) -> SeriesByName:
        """Return a pod's series by name: resource figures from the exporter, and posted samples.

        Raises:
            PrometheusError: Prometheus gives no answer.
        """
        posted = self._merge(pod_owner(pod), f"{names.POD_METRIC}{{pod={quote(pod)}", selection)
        pattern = re.escape(selection.metric) if selection.metric else _POD_SERIES
        now = time.time()
        start = max(selection.since_us / 1e6, now - _RETENTION_SECONDS)
        found = self.prometheus.query(
            f"{{__name__=~{quote(pattern)},__name__=~{quote(_POD_SERIES)},pod={quote(pod)}}}"
            f"[{max(1, round((now - start) * 1000))}ms]",
            now,
        )
        for series in found:
            points = [p for p in _points(series) if p.time_us > selection.since_us]
            posted.setdefault(series.labels["__name__"], []).extend(points)
        return _finish(posted, selection)

    def _merge(self, owner: str, selector: str, selection: Selection) -> SeriesByName:
        # The database first: a sample on its way from there to Prometheus is then seen twice
        # rather than not at all.
        stored = _stored(owner)
        merged: SeriesByName = {}
        in_prometheus: set[tuple[str, int, float]] = set()
        if stored.first_ms is not None:
            start_ms = max(stored.first_ms, selection.since_us // 1000)
            length_ms = max(1, stored.last_ms - start_ms + 1)
            wanted = f",metric={quote(selection.metric)}" if selection.metric else ""
            for series in self.prometheus.query(
                f"{selector}{wanted}}}[{length_ms}ms]", stored.last_ms / 1000
            ):
                name = series_name(series.labels["metric"], series.labels.get("rank", ""))
                points = list(_points(series))
                merged[name] = points
                if stored.waiting:
                    in_prometheus.update((name, p.time_us, float(p.value)) for p in points)
        for sample in (*stored.waiting, *stored.kept):
            if selection.metric not in ("", sample.metric):
                continue
            name = series_name(sample.metric, sample.rank)
            arrived = (name, sample.time_us // 1000 * 1000, sample.value)
            if arrived not in in_prometheus:
                merged.setdefault(name, []).append(Point(sample.time_us, spell(sample.value)))
        return _finish(merged, selection)


def series_name(metric: str, rank: str) -> str:
    """Return the name of a series on the API, as MLBench writes it: ``train_loss @ 0``."""
    return f"{metric} @ {rank}" if rank else metric


def split_name(name: str) -> tuple[str, str]:
    """Return metric and rank of a name on the API; the rank is empty where the name has none."""
    metric, separator, rank = name.rpartition(" @ ")
    return (metric, rank) if separator and rank.isdecimal() and metric else (name, "")


def _stored(owner: str) -> _Stored:
    with database.atomic():
        waiting = [sample for stream in _waiting_streams(owner) for sample in _samples(stream)]
        kept = [
            Sample(row.metric, row.rank, row.time_us, row.value)
            for row in KeptSample.select().where(KeptSample.owner == owner)
        ]
        first, last = (
            Series.select(fn.MIN(Series.first_ms), fn.MAX(Series.last_ms))
            .where(Series.owner == owner)
            .scalar(as_tuple=True)
        )
    return _Stored(waiting, kept, first, last or 0)


def _waiting_streams(owner: str) -> list[Stream]:
    return list(
        Stream.select().where(
            Stream.owner == owner,
            Stream.name.in_([METRICS, POSTED]),
            Stream.delivered < Stream.size,
        )
    )


def _samples(stream: Stream) -> Iterator[Sample]:
    rank = "" if stream.rank == NO_RANK else str(stream.rank)
    data = read(stream, stream.delivered, stream.size)
    for item in parse_lines(data, rank, received_us=time.time_ns() // 1000):
        if isinstance(item, Sample):
            yield item


def _points(series: Found) -> Iterator[Point]:
    for seconds, value in series.samples:
        yield Point(round(seconds * 1000) * 1000, value)


def _finish(series: SeriesByName, selection: Selection) -> SeriesByName:
    finished = {}
    for name in sorted(series):
        points = sorted(p for p in series[name] if p.time_us > selection.since_us)
        if selection.last_n is not None:
            points = points[-selection.last_n :] if selection.last_n else []
        if points:
            finished[name] = points
    return finished
