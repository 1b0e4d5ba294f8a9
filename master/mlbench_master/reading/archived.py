"""Reading from archives what Prometheus has no more."""

from collections.abc import Iterable, Mapping
from functools import partial

from mlbench.archive import Archive, Piece, Sealed, SeriesName
from mlbench.contract.series import SeriesKey, format_value, series_name
from mlbench_master.reading import windows
from mlbench_master.reading.delivered import LostSamplesError
from mlbench_master.reading.points import NO_ANNOTATION, Annotation, Chunks, Points, Reader
from mlbench_master.reading.promql import PrometheusClient, select
from mlbench_master.reading.selection import NamedSeries, Selection
from mlbench_master.reading.stored import Delivered, Stored
from mlbench_master.reading.windows import Span
from mlbench_master.recording.samples import prometheus_labels

_NOTHING = Sealed(0, 0, "")


def series_of(archive: Archive, selection: Selection, pod: str = "") -> NamedSeries:
    """Yield the series of the run, or of one of its pods, as ``SeriesReader`` does."""
    readers: dict[str, list[Reader]] = {}
    for series in archive.series:
        name = series_name(series.metric, series.rank)
        # A pod's series may have labels in its name.
        metric = series.metric.partition("{")[0] if pod else series.metric
        if series.pod == pod and selection.wants(name, metric):
            both = [partial(_read, archive, series, kept=kept) for kept in (False, True)]
            readers.setdefault(name, []).extend(both)
    return selection.series(readers)


def delivered(
    archive: Archive, prometheus: PrometheusClient, stored: Stored, keys: Iterable[SeriesKey]
) -> Mapping[SeriesKey, Reader]:
    """Return a reader for each delivered series: for the archive, and for later samples.

    Raises:
        LostSamplesError: the samples are being delivered again.
    """
    readers = {}
    for key in keys:
        if series := stored.delivered.get(key):
            sealed = archive.series.get(SeriesName(*key), _NOTHING)
            if sealed.samples > series.samples:
                raise LostSamplesError(stored.owner, series.samples, sealed.samples)
            readers[key] = partial(_resume, archive, prometheus, stored.owner, key, series)
    return readers


def to_points(piece: Piece) -> Points:
    """Write a piece of an archive as points."""
    values = list(map(format_value, piece.values))
    annotations = {}
    for i, detail in piece.more.items():
        if detail.text is not None:
            values[i] = detail.text
        if (note := Annotation(detail.cumulative, detail.metadata)) != NO_ANNOTATION:
            annotations[i] = note
    return Points(piece.times_us, values, annotations)


def _resume(
    archive: Archive, prometheus: PrometheusClient, owner: str, key: SeriesKey, series: Delivered
) -> Chunks:
    seen, first_ms = 0, series.span.first_ms
    if SeriesName(*key) in archive.series:
        for points in _read(archive, SeriesName(*key), kept=False):
            seen, first_ms = seen + len(points), points.times_us[-1] // 1000 + 1
            yield points
    if seen < series.samples:
        metric, rank = key
        labels = prometheus_labels(owner, (metric, "")) | {"rank": rank}
        span = Span(first_ms, series.span.last_ms)
        for points in windows.read(prometheus, select(labels), span):
            seen += len(points)
            yield points
    if seen < series.samples:
        raise LostSamplesError(owner, seen, series.samples)


def _read(archive: Archive, name: SeriesName, *, kept: bool) -> Chunks:
    """Yield the samples of a series that Prometheus can store, or the others."""
    return map(to_points, archive.read(name, kept=kept))
