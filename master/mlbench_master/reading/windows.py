"""Reading raw samples from Prometheus: at once, or window by window where there are many.

All of it raises ``PrometheusError`` if Prometheus gives no answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mlbench.contract.series import SeriesKey
from mlbench_master.reading.points import PIECE, Annotation, Chunks, Points, join
from mlbench_master.reading.promql import PrometheusClient, QueryResult
from mlbench_master.recording.samples import series_key

# Steps of a query that counts samples; Prometheus answers with at most 11,000.
_BUCKETS = 1_000


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time, both milliseconds included."""

    first_ms: int
    last_ms: int

    @property
    def length_ms(self) -> int:
        """Length of the span; 0 if its end is before its start."""
        return max(0, self.last_ms - self.first_ms + 1)


def count(prometheus: PrometheusClient, selector: str, span: Span) -> dict[SeriesKey, int]:
    """Count the samples of each series of an owner, possibly with one just before the span."""
    query = f"count_over_time({selector}[{span.length_ms}ms])"
    counted = prometheus.query(query, span.last_ms / 1000)
    return {series_key(result.labels): int(result.values[0]) for result in counted}


def read_at_once(prometheus: PrometheusClient, selector: str, span: Span) -> list[QueryResult]:
    """Read all samples in a span, and possibly samples of the millisecond before.

    Older versions of Prometheus include the first instant of a range, newer ones do not.
    """
    return prometheus.query(f"{selector}[{span.length_ms}ms]", span.last_ms / 1000)


def averages(
    prometheus: PrometheusClient, selector: str, span: Span, most: int
) -> dict[SeriesKey, Points]:
    """Return averages that Prometheus computes over at most ``most`` parts of a span.

    An average has the time of the begin of its part, and extremes if these are two finite numbers.
    """
    step_ms = -(-span.length_ms // most)
    first_end = span.first_ms + step_ms - 1
    last_end = first_end + (span.length_ms - 1) // step_ms * step_ms
    means, lows, highs = (
        {
            series_key(result.labels): dict(zip(result.times, result.values, strict=True))
            for result in prometheus.query_range(asked, first_end, last_end, step_ms)
        }
        for asked in (f"{of}_over_time({selector}[{step_ms}ms])" for of in ("avg", "min", "max"))
    )
    return {
        key: Points(
            [(round(end * 1000) - step_ms + 1) * 1000 for end in values],
            [*values.values()],
            dict(_extremes(values, lows.get(key, {}), highs.get(key, {}))),
            are_numbers=True,
        )
        for key, values in means.items()
    }


def _extremes(
    ends: Iterable[float], lows: Mapping[float, str], highs: Mapping[float, str]
) -> Iterator[tuple[int, Annotation]]:
    """Yield the extremes of parts by index, since more samples may have come after the averages."""
    for i, end in enumerate(ends):
        low, high = lows.get(end, ""), highs.get(end, "")
        if low != high and "Inf" not in low + high:
            yield i, Annotation(minimum=low, maximum=high)


def read(prometheus: PrometheusClient, selector: str, span: Span) -> Chunks:
    """Yield the samples of all selected series in a span, in order of time."""
    for window in _windows(prometheus, selector, span):
        yield from as_one(read_at_once(prometheus, selector, window), window)


def as_one(found: Iterable[QueryResult], span: Span) -> Chunks:
    """Yield the samples of several series in a span together, if there are any."""
    if points := join([to_points(result, span) for result in found]):
        yield points


def to_points(found: QueryResult, span: Span) -> Points:
    """Return the samples of a series in a span as points."""
    times_us = [round(seconds * 1000) * 1000 for seconds in found.times]
    points = Points(times_us, found.values, are_numbers=True)
    return points.between(span.first_ms * 1000 - 1, span.last_ms * 1000)


def _windows(prometheus: PrometheusClient, selector: str, span: Span) -> Iterator[Span]:
    """Split a span into windows with no more samples than a chunk may hold."""
    step_ms = max(1, -(-span.length_ms // _BUCKETS))
    first_end = span.first_ms + step_ms - 1
    last_end = first_end + (span.length_ms - 1) // step_ms * step_ms
    result = prometheus.query_range(
        f"sum(count_over_time({selector}[{step_ms}ms]))", first_end, last_end, step_ms
    )
    held, window = 0, None
    counts = zip(result[0].times, result[0].values, strict=True) if result else ()
    for seconds, text in counts:
        end_ms, samples = round(seconds * 1000), int(text)
        bucket = Span(end_ms - step_ms + 1, min(end_ms, span.last_ms))
        if window is not None and held + samples > PIECE:
            yield window
            held, window = 0, None
        if samples > PIECE and step_ms > 1:
            yield from _windows(prometheus, selector, bucket)
        else:
            held += samples
            window = Span(window.first_ms if window else bucket.first_ms, bucket.last_ms)
    if window is not None:
        yield window
