"""Reading Prometheus in pieces: one query for what is small, windows of time for what is large."""

from collections.abc import Iterator
from dataclasses import dataclass

from master.reading.points import PIECE, Pieces, Points, join
from master.reading.promql import Found, PrometheusClient

# Prometheus answers with 11,000 steps at most; so many are enough to find windows.
_BUCKETS = 1_000


@dataclass(frozen=True, slots=True)
class Span:
    """From one millisecond to another, both included."""

    first_ms: int
    last_ms: int

    @property
    def length_ms(self) -> int:
        """How many milliseconds these are; none where there is nothing in between."""
        return max(0, self.last_ms - self.first_ms + 1)


def count(prometheus: PrometheusClient, selector: str, span: Span) -> list[Found]:
    """Return how many samples each selected series has, or one more.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    return prometheus.query(f"count_over_time({selector}[{span.length_ms}ms])", span.last_ms / 1000)


def read_at_once(prometheus: PrometheusClient, selector: str, span: Span) -> list[Found]:
    """Return all samples in a span; those of one millisecond more may be among them.

    Older versions of Prometheus include the first instant of a range, newer ones do not: a range
    that is sure to hold all may hold one instant too many.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    return prometheus.query(f"{selector}[{span.length_ms}ms]", span.last_ms / 1000)


def read(prometheus: PrometheusClient, selector: str, span: Span) -> Pieces:
    """Yield what a selector finds in a span, window by window.

    What several series have at one time follows each other.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    for window in _windows(prometheus, selector, span):
        found = read_at_once(prometheus, selector, window)
        if points := join([to_points(one, window) for one in found]):
            yield points


def to_points(found: Found, span: Span) -> Points:
    """Return the samples of a series that are in a span."""
    points = Points(
        [round(seconds * 1000) * 1000 for seconds in found.times],
        found.values,
    )
    return points.between(span.first_ms * 1000 - 1, span.last_ms * 1000)


def _windows(prometheus: PrometheusClient, selector: str, span: Span) -> Iterator[Span]:
    """Yield spans one after the other, each with no more samples than a piece may hold."""
    step_ms = max(1, -(-span.length_ms // _BUCKETS))
    first_end = span.first_ms + step_ms - 1
    last_end = first_end + (span.length_ms - 1) // step_ms * step_ms
    found = prometheus.query_range(
        f"sum(count_over_time({selector}[{step_ms}ms]))", first_end, last_end, step_ms
    )
    held, window = 0, None
    counts = zip(found[0].times, found[0].values, strict=True) if found else ()
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
