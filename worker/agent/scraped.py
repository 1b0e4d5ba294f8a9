"""The agent's ``/metrics``: which rank it runs, and the totals that the training process left."""

import logging
import time
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mlbench import names
from worker.agent.attempt import Attempt
from worker.agent.published import Published, read_published

log = logging.getLogger(__name__)


class WorkerCollector(Collector):
    """Collects what there is of the current attempt, or of the last one until the next begins."""

    def __init__(self, pod: str) -> None:
        self._pod = pod
        self._idle = True
        self._attempt: Attempt | None = None
        self._told: Attempt | None = None
        """Whose omissions the log has been told of."""

    def show(self, attempt: Attempt) -> None:
        """Collect an attempt's totals from now on."""
        self._attempt, self._idle = attempt, False

    def show_idle(self) -> None:
        """Say that no rank runs; the last totals stay, for a scrape that has yet to come."""
        self._idle = True

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's clock and info, and the totals summed over its processes."""
        attempt = self._attempt
        yield GaugeMetricFamily(names.WORKER_TIME, "The worker's clock, Unix time.", time.time())
        rank = ("", "") if attempt is None or self._idle else _run_and_rank(attempt)
        info = GaugeMetricFamily(
            names.WORKER_INFO,
            "Which run and rank the worker has; both empty while it is idle.",
            labels=("pod", "run_id", "rank"),
        )
        info.add_metric((self._pod, *rank), 1.0)
        yield info
        if attempt is None:
            return
        running = GaugeMetricFamily(
            names.WORKER_RUNNING,
            "Whether the training process lives: 1, or 0 once it has ended.",
            labels=("run_id", "rank"),
        )
        running.add_metric(_run_and_rank(attempt), attempt.exit is None)
        yield running
        run_id, own_rank = _run_and_rank(attempt)
        published = read_published(attempt.counters, {"run_id": run_id, "rank": own_rank})
        self._tell(attempt, published)
        yield from published.families

    def _tell(self, attempt: Attempt, published: Published) -> None:
        """Log what is left out of what the process publishes: once for an attempt."""
        if published.left_out and self._told is not attempt:
            self._told = attempt
            left_out = "; ".join(published.left_out)
            log.warning("not passed on of what %s publishes: %s", attempt.folder.name, left_out)


def _run_and_rank(attempt: Attempt) -> tuple[str, str]:
    return str(attempt.assignment.run_id), str(attempt.assignment.rank)
