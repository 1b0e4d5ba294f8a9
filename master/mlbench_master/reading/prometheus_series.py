"""Reading recorded series from Prometheus, as long as it has all that was recorded of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlbench_master.reading import windows
from mlbench_master.reading.points import Series, merge
from mlbench_master.reading.promql import PrometheusClient, PrometheusError, select
from mlbench_master.reading.record import Record
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.windows import Span
from mlbench_master.recording.samples import prometheus_labels, series_key

# A larger answer is read from the record, which takes a tenth of the time.
_MAX_SAMPLES = 200_000
# Metrics that are named in a query; who wants more gets those of all.
_NAMED = 50
# For so long, what was found to be complete is not counted again.
_FRESH_SECONDS = 10.0
_MAX_REMEMBERED = 1_000


@dataclass(frozen=True)
class PrometheusSeries:
    """Reads the series of an owner from Prometheus. Threads may share it."""

    prometheus: PrometheusClient
    _checked: dict[object, float] = field(default_factory=dict)
    """When series were last found to be complete, on the monotonic clock."""

    def read(
        self, owner: str, record: Record, metrics: Sequence[str], span: Span, selection: Selection
    ) -> Mapping[str, Mapping[str, Series]] | None:
        """Return the series of metrics by rank, as far as they are selected.

        ``span`` is the time in which the owner has recorded samples. None if Prometheus does not
        answer, or does not have all that the record has of these metrics.
        """
        expected = {metric: record.in_prometheus(metric) for metric in metrics}
        counts = [count for count in expected.values() if count is not None]
        if len(counts) < len(metrics) or not 0 < sum(counts) <= _MAX_SAMPLES:
            return None
        others = {metric: record.others(metric) for metric in metrics}
        labels = prometheus_labels(owner, ("", ""))
        del labels["metric"]
        selector = select(labels, {"metric": metrics} if len(metrics) <= _NAMED else {})
        part = Span(
            max(span.first_ms, selection.after_us // 1000),
            min(span.last_ms, selection.until_us // 1000),
        )
        try:
            if part != span and not self._is_complete(
                (owner, *metrics), selector, span, sum(counts), expected
            ):
                return None
            found: dict[str, dict[str, Series]] = {metric: {} for metric in metrics}
            for result in windows.read_at_once(self.prometheus, selector, part):
                metric, rank = series_key(result.labels)
                if metric in found:
                    found[metric][rank] = windows.to_series(result, part)
        except PrometheusError:
            return None
        if part == span and any(
            sum(len(series.times_us) for series in by_rank.values()) != expected[metric]
            for metric, by_rank in found.items()
        ):
            return None
        # What Prometheus cannot hold by its nature, such as texts.
        for metric, by_rank in others.items():
            for rank, series in by_rank.items():
                had = found[metric].get(rank)
                found[metric][rank] = merge([had, series]) if had else series
        return found

    def _is_complete(
        self,
        wanted: object,
        selector: str,
        span: Span,
        samples: int,
        expected: Mapping[str, int | None],
    ) -> bool:
        """Check that Prometheus has all samples of these metrics, unless it had them just now.

        All are those that it has accepted, and no others.
        """
        checked = (wanted, samples)
        if time.monotonic() - self._checked.get(checked, float("-inf")) < _FRESH_SECONDS:
            return True
        query = f"sum by (metric) (count_over_time({selector}[{span.length_ms}ms]))"
        counted = {
            result.labels["metric"]: int(float(result.values[0]))
            for result in self.prometheus.query(query, span.last_ms / 1000)
        }
        # If it has more, some of what is only in the record was sent too: it would be doubled.
        if any(counted.get(metric, 0) != count for metric, count in expected.items()):
            return False
        if len(self._checked) >= _MAX_REMEMBERED:
            self._checked.clear()
        self._checked[checked] = time.monotonic()
        return True
