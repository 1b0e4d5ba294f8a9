"""The master itself: where it is reached, how much waits for Prometheus, and how much may."""

from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from master.models import KeptSample
from master.recording.limits import waiting_bytes
from master.telemetry.reading import DatabaseCollector
from mlbench import names


class MasterCollector(DatabaseCollector):
    """Tells of the master whose users reach it at ``url``, and of its spool."""

    def __init__(self, url: str, spool_limit_bytes: int) -> None:
        self._labels = (url, version("mlbench"))
        self._spool_limit_bytes = spool_limit_bytes

    def collect(self) -> Iterator[Metric]:
        """Yield what the master is, and the state of the spool."""
        info = GaugeMetricFamily(
            names.MASTER_INFO, "Where a browser reaches the master.", labels=("url", "version")
        )
        info.add_metric(self._labels, 1.0)
        yield info
        yield GaugeMetricFamily(
            "mlbench_spool_bytes",
            "Bytes of recorded samples that wait for Prometheus.",
            float(waiting_bytes()),
        )
        yield GaugeMetricFamily(
            "mlbench_spool_limit_bytes",
            "Bytes that may wait: the master takes no samples beyond it.",
            float(self._spool_limit_bytes),
        )
        yield GaugeMetricFamily(
            "mlbench_kept_samples",
            "Samples that Prometheus cannot hold.",
            float(KeptSample.select().count()),
        )
