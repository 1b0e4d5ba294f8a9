"""Reading a run's or a pod's samples: from Prometheus, from what still waits, from what is kept."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from master.models import KeptSample, Run, Series, Stream, database, pod_owner, run_owner
from master.reading.promql import Found, PrometheusClient, quote
from master.recording.samples import Sample, SeriesKey, parse_lines, spell
from master.recording.streams import rank_label, read_lines
from master.recording.streams import waiting as waiting_streams
from mlbench import names

# Resource figures of a pod, as the exporter names them.
_POD_SERIES = "container_"
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
    first_ms: int
    last_ms: Mapping[SeriesKey, int]
    """By series: the newest millisecond that was delivered. Newer ones still wait."""


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
        if selection.metric and not selection.metric.startswith(_POD_SERIES):
            return posted
        name = (
            f"={quote(selection.metric)}" if selection.metric else f"=~{quote(f'{_POD_SERIES}.+')}"
        )
        now = time.time()
        start = max(selection.since_us / 1e6, now - _RETENTION_SECONDS)
        found = self.prometheus.query(
            f"{{__name__{name},pod={quote(pod)}}}[{max(1, round((now - start) * 1000))}ms]",
            now,
        )
        for series in found:
            points = [p for p in _points(series) if p.time_us > selection.since_us]
            posted.setdefault(series.labels["__name__"], []).extend(points)
        return _finish(posted, selection)

    def _merge(self, owner: str, selector: str, selection: Selection) -> SeriesByName:
        # The database first: a sample on its way from there to Prometheus is then still among
        # those that wait, and left out of what Prometheus says.
        stored = _stored(owner)
        merged: SeriesByName = {}
        for (metric, rank), points in self._delivered(selector, stored, selection):
            merged[series_name(metric, rank)] = points
        for sample in (*stored.waiting, *stored.kept):
            if selection.metric in ("", sample.metric):
                name = series_name(sample.metric, sample.rank)
                merged.setdefault(name, []).append(Point(sample.time_us, spell(sample.value)))
        return _finish(merged, selection)

    def _delivered(
        self, selector: str, stored: _Stored, selection: Selection
    ) -> Iterator[tuple[SeriesKey, list[Point]]]:
        """Yield each series that Prometheus has, up to what the database knew to be delivered."""
        if not stored.last_ms:
            return
        newest_ms = max(stored.last_ms.values())
        length_ms = newest_ms - max(stored.first_ms, selection.since_us // 1000) + 1
        if length_ms < 1:
            return
        wanted = f",metric={quote(selection.metric)}" if selection.metric else ""
        for series in self.prometheus.query(
            f"{selector}{wanted}}}[{length_ms}ms]", newest_ms / 1000
        ):
            key = series.labels["metric"], series.labels.get("rank", "")
            last_us = stored.last_ms.get(key, 0) * 1000
            yield key, [point for point in _points(series) if point.time_us <= last_us]


def series_name(metric: str, rank: str) -> str:
    """Return the name of a series on the API, as MLBench writes it: ``train_loss @ 0``."""
    return f"{metric} @ {rank}" if rank else metric


def split_name(name: str) -> tuple[str, str]:
    """Return metric and rank of a name on the API; the rank is empty where the name has none."""
    metric, separator, rank = name.rpartition(" @ ")
    return (metric, rank) if separator and rank.isdecimal() and metric else (name, "")


def _stored(owner: str) -> _Stored:
    with database.atomic():
        waiting = [sample for stream in waiting_streams(owner) for sample in _samples(stream)]
        kept = [
            Sample(row.metric, row.rank, row.time_us, row.value)
            for row in KeptSample.select().where(KeptSample.owner == owner)
        ]
        series = list(Series.select().where(Series.owner == owner))
    return _Stored(
        waiting,
        kept,
        first_ms=min((row.first_ms for row in series), default=0),
        last_ms={(row.metric, row.rank): row.last_ms for row in series},
    )


def _samples(stream: Stream) -> Iterator[Sample]:
    data = read_lines(stream, stream.delivered, stream.size)
    received_us = time.time_ns() // 1000
    for item in parse_lines(data, rank_label(stream), received_us):
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
