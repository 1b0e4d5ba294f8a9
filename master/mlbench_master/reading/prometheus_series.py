"""Reading recorded series from Prometheus, as long as it has all that was recorded of them."""

from collections.abc import Mapping, Sequence

from mlbench_master.reading import windows
from mlbench_master.reading.points import Series, merge
from mlbench_master.reading.promql import PrometheusClient, answer_or_none, select
from mlbench_master.reading.record import Record
from mlbench_master.reading.windows import Span
from mlbench_master.recording.samples import prometheus_labels, series_key

# A larger answer is read from the record, which takes a tenth of the time.
_MAX_SAMPLES = 200_000


def read(
    prometheus: PrometheusClient, owner: str, record: Record, metrics: Sequence[str], span: Span
) -> Mapping[str, Mapping[str, Series]] | None:
    """Return the series of metrics by rank.

    ``span`` is the time in which the owner has recorded samples. None if Prometheus does not
    answer, or does not have just the samples of these metrics that the record says were sent.
    """
    expected = {metric: record.in_prometheus(metric) for metric in metrics}
    counts = [count for count in expected.values() if count is not None]
    if len(counts) < len(metrics) or not 0 < sum(counts) <= _MAX_SAMPLES:
        return None
    others = {metric: record.others(metric) for metric in metrics}
    labels = prometheus_labels(owner, ("", ""))
    del labels["metric"]
    # A query names at most 50 metrics; for more, it reads the series of all.
    selector = select(labels, {"metric": metrics} if len(metrics) <= 50 else {})
    results = answer_or_none(lambda: windows.read_at_once(prometheus, selector, span))
    if results is None:
        return None
    found: dict[str, dict[str, Series]] = {metric: {} for metric in metrics}
    for result in results:
        metric, rank = series_key(result.labels)
        if metric in found:
            found[metric][rank] = windows.to_series(result, span)
    for metric, by_rank in found.items():
        if sum(len(series.times_us) for series in by_rank.values()) != expected[metric]:
            return None
        # What Prometheus cannot hold by its nature, such as texts.
        for rank, series in others[metric].items():
            by_rank[rank] = merge([by_rank[rank], series]) if rank in by_rank else series
    return found
