"""Reading from Prometheus what the database knows was delivered: all of it, or an error."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.series import SeriesKey, series_name
from mlbench_master.database.models import find_run, pod_owner
from mlbench_master.reading import windows
from mlbench_master.reading.points import Chunks, Points, Reader
from mlbench_master.reading.promql import PrometheusClient, PrometheusError, select
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.stored import Stored
from mlbench_master.reading.windows import Span
from mlbench_master.recording.samples import prometheus_labels, series_key

# Maximum number of samples in one query for all series, much faster than one query per series.
_AT_ONCE = 200_000
# With more samples, short series share queries: a thousand ranks would need two thousand.
_TOGETHER = 50_000
# Prometheus averages more series itself.
_MANY = 64
# Maximum number of metrics to name in a query; with more, the query reads all metrics.
_NAMED = 50
# Time for which complete series are not counted again.
_FRESH_SECONDS = 10.0
_MAX_REMEMBERED = 1_000

Spans = Mapping[SeriesKey, Span]


class LostSamplesError(PrometheusError):
    """Prometheus has lost delivered samples. Samples of an active run are delivered again."""

    def __init__(self, owner: str, found: int, samples: int, why_not_archived: str = "") -> None:
        kind, _, name = owner.partition("/")
        super().__init__(
            f"Prometheus has {found} of the {samples} samples of {kind} {name}: "
            "it lost or forgot the rest (retention, a lost disk)"
            + (f"; {why_not_archived}" if why_not_archived else "")
        )
        self.counts = found, samples
        run = find_run(owner)
        self.may_pass = run is not None and run.state in ACTIVE_STATES


@dataclass(frozen=True)
class DeliveredReader:
    """Reads an owner's series from Prometheus."""

    prometheus: PrometheusClient
    stored: Stored
    selection: Selection
    checked: dict[object, float]
    """When series were last found to be complete, on the monotonic clock. Threads may share it."""

    def read(self, keys: Iterable[SeriesKey]) -> Mapping[SeriesKey, Reader]:
        """Return a way to read each of the series that Prometheus has samples of.

        For the last points of a series, only its end may be read.

        Raises:
            LostSamplesError: Prometheus has not all of them any more.
        """
        # A posted sample may be later by a fraction of its millisecond in Prometheus.
        after_ms, until_ms = self.selection.after_us // 1000, self.selection.until_us // 1000
        spans = {
            key: Span(max(series.span.first_ms, after_ms), min(series.span.last_ms, until_ms))
            for key in keys
            if (series := self.stored.delivered.get(key))
        }
        spans = {key: span for key, span in spans.items() if span.length_ms}
        if not spans:
            return {}
        # Number of points to read at the end of a series; 0 to read all of it.
        last_n = 0 if self.selection.summarize else self.selection.last_n or 0
        ends = {key: self._end(key, span, last_n) for key, span in spans.items()}
        samples = self._expected_samples(spans)
        if samples > _TOGETHER and self._can_be_averaged(spans):
            self._check_counts(list(spans))
            return self._averages(spans)
        if samples <= _AT_ONCE:
            result = self._query(ends)
            if any(len(result[key]) < last_n and ends[key] != spans[key] for key in spans):
                result, ends = self._query(spans), spans
            whole = {key: len(result[key]) for key in ends if self._is_whole(key, ends[key])}
            self._check(whole)
            self._check_counts([key for key in ends if key not in whole])
            return {key: partial(iter, [some] if some else []) for key, some in result.items()}
        self._check_counts(list(spans))
        readers: dict[SeriesKey, Reader] = {}
        held: dict[SeriesKey, Points] = {}
        for group in self._groups(spans, 0 if last_n else _TOGETHER):
            for key, span in group.items():
                alone = partial(self._read_windows, key, ends[key], span, last_n)
                readers[key] = alone if len(group) == 1 else partial(self._read, key, group, held)
        return readers

    def _can_be_averaged(self, spans: Spans) -> bool:
        """Check if the request is for few averages of many series, without posted details."""
        wanted = len(spans) * (self.selection.summarize or math.inf)
        is_plain = self.selection.lineage is None and not self.stored.details
        return is_plain and len(spans) > _MANY and wanted <= _AT_ONCE

    def _averages(self, spans: Spans) -> Mapping[SeriesKey, Reader]:
        """Return averages that Prometheus makes: reading all samples takes ten times as long."""
        # Leave room for the waiting samples, so that the averages are not averaged again.
        most = max(1, (self.selection.summarize or 1) * 3 // 4)
        averages = windows.averages(self.prometheus, self._selector([*spans]), _around(spans), most)
        return {key: partial(iter, [points]) for key, points in averages.items() if key in spans}

    def _groups(self, spans: Spans, most: int) -> Iterator[Spans]:
        """Group series, in the order in which they are read, up to a number of samples."""
        group, size = dict[SeriesKey, Span](), 0
        for key in sorted(spans, key=lambda key: series_name(*key)):
            samples = self.stored.delivered[key].samples or most + 1
            if group and size + samples > most:
                yield group
                group, size = {}, 0
            group[key] = spans[key]
            size += samples
        yield group

    def _read(self, key: SeriesKey, group: Spans, held: dict[SeriesKey, Points]) -> Chunks:
        """Yield a series of a group, all of which is held until one of another is wanted."""
        if key not in held:
            held.clear()
            held.update(self._query(group))
            self._check({k: len(held[k]) for k in group if self._is_whole(k, group[k])})
        if points := held[key]:
            yield points

    def _end(self, key: SeriesKey, span: Span, last_n: int) -> Span:
        """Return the part of a span that has the last points, if samples come evenly."""
        if not last_n:
            return span
        known = self.stored.delivered[key]
        length_ms = 2 * last_n * (known.span.length_ms - 1) // max(1, known.samples)
        return Span(max(span.first_ms, span.last_ms - length_ms), span.last_ms)

    def _expected_samples(self, spans: Spans) -> int:
        """Return an upper bound of the samples in the spans."""
        known = {key: self.stored.delivered[key] for key in spans}
        samples = sum(series.samples for series in known.values())
        from_first = all(span.first_ms == known[key].span.first_ms for key, span in spans.items())
        if all(series.samples for series in known.values()) and (from_first or samples <= _AT_ONCE):
            return samples
        counted = windows.count(self.prometheus, self._selector(list(spans)), _around(spans))
        return sum(counted.values())

    def _query(self, spans: Spans) -> dict[SeriesKey, Points]:
        points = dict.fromkeys(spans, Points((), ()))
        selector = self._selector(list(spans))
        for result in windows.read_at_once(self.prometheus, selector, _around(spans)):
            key = series_key(result.labels)
            if key in spans:
                points[key] = windows.to_points(result, spans[key])
        return points

    def _read_windows(self, key: SeriesKey, end: Span, span: Span, last_n: int) -> Chunks:
        """Yield a span of a series, or only its end if that has all points wanted."""
        read = partial(windows.read, self.prometheus, self._selector([key]))
        if end != span and sum(len(chunk) for chunk in read(end)) >= last_n:
            span = end
        samples_read = 0
        for chunk in read(span):
            samples_read += len(chunk)
            yield chunk
        if self._is_whole(key, span):
            self._check({key: samples_read})

    def _is_whole(self, key: SeriesKey, span: Span) -> bool:
        return span == self.stored.delivered[key].span

    def _check_counts(self, keys: Sequence[SeriesKey]) -> None:
        """Check by counting that series are complete of which a part is to be read, or much.

        A pod outlives Prometheus's memory of it, so the series of pods may have lost their start.
        """
        wanted = (self.stored.owner, self.selection.names)
        is_fresh = time.monotonic() - self.checked.get(wanted, float("-inf")) < _FRESH_SECONDS
        if not keys or is_fresh or self.stored.owner.startswith(pod_owner("")):
            return
        span = _around({key: self.stored.delivered[key].span for key in keys})
        counted = windows.count(self.prometheus, self._selector(sorted(keys)), span)
        self._check({key: counted.get(key, 0) for key in keys})
        if len(self.checked) >= _MAX_REMEMBERED:
            self.checked.clear()
        self.checked[wanted] = time.monotonic()

    def _check(self, found: Mapping[SeriesKey, int]) -> None:
        """Raise an error if Prometheus has fewer samples of whole series than were delivered."""
        wanted = {key: self.stored.delivered[key].samples for key in found}
        if all(found[key] >= samples for key, samples in wanted.items()):
            return
        self.stored.check()
        left = sum(min(found[key], samples) for key, samples in wanted.items())
        raise LostSamplesError(self.stored.owner, left, sum(wanted.values()))

    def _selector(self, keys: Sequence[SeriesKey]) -> str:
        """Write a selector of these series: exact for a single one, else maybe of more."""
        metric, rank = keys[0]
        wanted = prometheus_labels(self.stored.owner, (metric, "")) | {"rank": rank}
        if len(keys) == 1:
            return select(wanted)
        del wanted["rank"], wanted["metric"]
        metrics, ranks = (sorted(set(names)) for names in zip(*keys, strict=True))
        any_of = {"metric": metrics} if len(metrics) <= _NAMED else {}
        if len(ranks) < len({rank for _, rank in self.stored.delivered}):
            any_of["rank"] = ranks
        return select(wanted, any_of)


def _around(spans: Spans) -> Span:
    return Span(
        min(span.first_ms for span in spans.values()), max(span.last_ms for span in spans.values())
    )
