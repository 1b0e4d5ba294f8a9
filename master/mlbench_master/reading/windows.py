"""Reading raw samples from Prometheus, at once or window by window."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mlbench_master.reading.points import Series, merge
from mlbench_master.reading.promql import PrometheusClient, QueryResult

# Samples of a window, about, so that a response of Prometheus is never large.
PIECE = 40_000
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


def read_at_once(prometheus: PrometheusClient, selector: str, span: Span) -> list[QueryResult]:
    """Read all samples in a span, and possibly samples of the millisecond before.

    Older versions of Prometheus include the first instant of a range, newer ones do not.
    """
    return prometheus.query(f"{selector}[{span.length_ms}ms]", span.last_ms / 1000)


def read(prometheus: PrometheusClient, selector: str, span: Span) -> Iterator[Series]:
    """Yield the samples of all selected series in a span together, in order of time."""
    for window in _windows(prometheus, selector, span):
        yield as_one(read_at_once(prometheus, selector, window), window)


def as_one(results: Iterable[QueryResult], span: Span) -> Series:
    """Return the samples of several series in a span together."""
    return merge([to_series(result, span) for result in results])


def to_series(found: QueryResult, span: Span) -> Series:
    """Return the samples of a series in a span."""
    ms = np.round(np.array(found.times) * 1000).astype(np.int64)
    first, end = np.searchsorted(ms, [span.first_ms, span.last_ms + 1])
    return Series(ms[first:end] * 1000, np.array([*map(float, found.values[first:end])]))


def _windows(prometheus: PrometheusClient, selector: str, span: Span) -> Iterator[Span]:
    """Split a span into windows with few samples."""
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
