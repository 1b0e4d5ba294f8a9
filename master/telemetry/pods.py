"""The worker pods: what the pool says of each, and when its agent was last heard of."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from master.models import Pod, Worker
from master.telemetry.reading import DatabaseCollector
from mlbench import names


class PodsCollector(DatabaseCollector):
    """Tells of the pods that the pool has now."""

    def collect(self) -> Iterator[Metric]:
        """Yield the series of all pods."""
        pods = list(Pod.select().order_by(Pod.name))
        info = GaugeMetricFamily(
            names.POD_INFO, "What the pool says of the pod.", labels=("pod", "phase", "node")
        )
        for pod in pods:
            info.add_metric((pod.name, pod.phase, pod.node), 1.0)
        yield info

        heard = GaugeMetricFamily(
            names.POD_HEARTBEAT, "When the pod's agent was last heard of.", labels=("pod",)
        )
        for worker in Worker.select().where(Worker.name.in_([pod.name for pod in pods])):
            heard.add_metric((worker.name,), worker.seen_at)
        yield heard
