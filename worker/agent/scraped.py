"""The agent's ``/metrics``: which rank it runs, and the totals that the training process left."""

from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from mlbench import names


class WorkerCollector(Collector):
    """Collects what there is of the current attempt, or of the last one until the next begins."""

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._run_id = ""
        self._rank = ""
        self._counters: Path | None = None

    def show(self, run_id: int, rank: int, counters: Path) -> None:
        """Collect an attempt's totals from now on."""
        self._run_id, self._rank, self._counters = str(run_id), str(rank), counters

    def show_idle(self) -> None:
        """Say that no rank runs; the last totals stay, for a scrape that has yet to come."""
        self._run_id, self._rank = "", ""

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's info, and the totals summed over its processes."""
        info = GaugeMetricFamily(
            names.WORKER_INFO,
            "Which run and rank the worker has; both empty while it is idle.",
            labels=("pod", "run_id", "rank"),
        )
        info.add_metric((self._pod, self._run_id, self._rank), 1.0)
        yield info
        if self._counters is not None:
            yield from MultiProcessCollector(CollectorRegistry(), str(self._counters)).collect()
