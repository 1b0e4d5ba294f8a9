"""The controller's loop: how often it looked and acted, and when it last did so to the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge


class LoopMetrics:
    """What is counted of the controller's loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reconciles = Counter(
            "mlbench_controller_reconciles_total",
            "Times that the controller looked and acted, by how that went.",
            ("outcome",),
            registry=registry,
        )
        self._done_at = Gauge(
            "mlbench_controller_reconcile_timestamp_seconds",
            "When the controller last looked and acted to the end.",
            registry=registry,
        )
        for outcome in ("done", "failed"):
            self._reconciles.labels(outcome)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is done inside the block as one time, failed if it raises."""
        try:
            yield
        except Exception:
            self._reconciles.labels("failed").inc()
            raise
        self._reconciles.labels("done").inc()
        self._done_at.set_to_current_time()
