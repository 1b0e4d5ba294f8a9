"""What Prometheus has of an owner's samples, up to what the database knew to be delivered."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from master.models import find_run
from master.reading import windows
from master.reading.completeness import Memory, check, to_the_end
from master.reading.points import Pieces, Points
from master.reading.promql import PrometheusClient, select
from master.reading.selection import Read, Selection
from master.reading.stored import Delivered, Stored
from master.reading.windows import Span
from master.recording.samples import SeriesKey
from master.recording.sending import labels, series_key

# An owner with no more samples is read in one query, which is much faster than one for each series.
_AT_ONCE = 200_000
# So many metrics are named in a query. Who wants more wants most of what there is.
_NAMED = 50

Spans = Mapping[SeriesKey, Span]


def read(
    prometheus: PrometheusClient,
    stored: Stored,
    keys: Sequence[SeriesKey],
    selection: Selection,
    whole: Memory,
) -> Mapping[SeriesKey, Read]:
    """Return how to read each of the series that Prometheus has samples of.

    Of a series of which only the last points are wanted, no more may be read than holds these.
    ``whole`` remembers which series are known to be.

    Raises:
        LostSamplesError: it no longer has all of them.
        PrometheusError: Prometheus gives no answer.
    """
    known = {key: stored.delivered[key] for key in keys if key in stored.delivered}
    spans = {key: _span(one, selection) for key, one in known.items()}
    spans = {key: span for key, span in spans.items() if span.length_ms}
    if not spans:
        return {}
    last_n = selection.last_n if selection.summarize is None else None
    ends = spans
    if last_n is not None:
        ends = {key: _end(known[key], span, last_n) for key, span in spans.items()}
    if _expect(prometheus, stored, spans) <= _AT_ONCE:
        found = _read_at_once(prometheus, stored.owner, ends)
        if any(len(found[key]) < (last_n or 0) and ends[key] != spans[key] for key in spans):
            found, ends = _read_at_once(prometheus, stored.owner, spans), spans
        all_of = [key for key, span in ends.items() if span == known[key].span]
        check(stored, {key: len(found[key]) for key in all_of})
        if len(all_of) < len(ends):
            _check_parts(prometheus, stored, selection, ends.keys() - {*all_of}, whole)
        return {key: partial(_piece, points) for key, points in found.items()}
    _check_parts(prometheus, stored, selection, spans.keys(), whole)
    return {
        key: partial(_read_end, prometheus, stored, key, ends[key], span, last_n)
        for key, span in spans.items()
    }


def _check_parts(
    prometheus: PrometheusClient,
    stored: Stored,
    selection: Selection,
    keys: AbstractSet[SeriesKey],
    whole: Memory,
) -> None:
    """Make sure that series are whole of which a part is to be read, or that are read in pieces.

    Of a part alone it is not known how much there should be. A pod outlives what Prometheus
    remembers of it, so of a pod nothing is made sure: what is left may well be all of that part.
    """
    wanted = (stored.owner, selection.names)
    if find_run(stored.owner) is None or whole.holds(wanted):
        return
    selector = _selector(stored.owner, sorted(keys))
    span = _around({key: stored.delivered[key].span for key in keys})
    found = dict.fromkeys(keys, 0)
    for one in windows.count(prometheus, selector, span):
        if (key := series_key(one.labels)) in found:
            found[key] = int(one.values[0])
    check(stored, found)
    whole.note(wanted)


def _span(known: Delivered, selection: Selection) -> Span:
    # A posted sample may be later by a part of the millisecond that Prometheus has.
    return Span(
        max(known.first_ms, selection.after_us // 1000),
        min(known.last_ms, selection.until_us // 1000),
    )


def _end(known: Delivered, span: Span, last_n: int) -> Span:
    """Return the end of a span, in which there are so many samples if they come evenly."""
    length_ms = 2 * last_n * (known.last_ms - known.first_ms) // max(1, known.samples)
    return Span(max(span.first_ms, span.last_ms - length_ms), span.last_ms)


def _expect(prometheus: PrometheusClient, stored: Stored, spans: Spans) -> int:
    """Return how many samples there are in the spans, or somewhat more."""
    known = [stored.delivered[key] for key in spans]
    samples = sum(one.samples for one in known)
    from_first = all(
        span.first_ms == one.first_ms for span, one in zip(spans.values(), known, strict=True)
    )
    if all(one.samples for one in known) and (from_first or samples <= _AT_ONCE):
        return samples
    counted = windows.count(prometheus, _selector(stored.owner, list(spans)), _around(spans))
    return sum(int(one.values[0]) for one in counted)


def _read_at_once(
    prometheus: PrometheusClient, owner: str, spans: Spans
) -> dict[SeriesKey, Points]:
    points = dict.fromkeys(spans, Points((), ()))
    selector = _selector(owner, list(spans))
    for one in windows.read_at_once(prometheus, selector, _around(spans)):
        key = series_key(one.labels)
        if key in spans:
            points[key] = windows.to_points(one, spans[key])
    return points


def _read_end(
    prometheus: PrometheusClient,
    stored: Stored,
    key: SeriesKey,
    end: Span,
    span: Span,
    last_n: int | None,
) -> Pieces:
    """Yield what is in a span, or just in its end if that is as many as are wanted."""
    read = partial(windows.read, prometheus, _selector(stored.owner, [key]))
    if end != span and sum(len(piece) for piece in read(end)) >= (last_n or 0):
        span = end
    pieces = read(span)
    yield from to_the_end(stored, key, pieces) if span == stored.delivered[key].span else pieces


def _piece(points: Points) -> Pieces:
    if points:
        yield points


def _around(spans: Spans) -> Span:
    return Span(
        min(span.first_ms for span in spans.values()), max(span.last_ms for span in spans.values())
    )


def _selector(owner: str, keys: Sequence[SeriesKey]) -> str:
    """Return what selects these series of an owner: just them if they are one, else maybe more."""
    metric, rank = keys[0]
    wanted = labels(owner, (metric, "")) | {"rank": rank}
    if len(keys) == 1:
        return select(wanted)
    del wanted["rank"], wanted["metric"]
    metrics = sorted({metric for metric, _ in keys})
    return select(wanted, {"metric": metrics} if len(metrics) <= _NAMED else None)
