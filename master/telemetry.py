"""What the master says of itself and its runs: the series that Prometheus scrapes from it."""

import time
from collections.abc import Iterator

import falcon
from falcon import Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from master.models import KeptSample, Run
from master.recording.spool import waiting_bytes
from mlbench import names
from mlbench.names import RunState

# The newest runs, and so a bounded number of series.
_RUNS_SHOWN = 100
_STATES: tuple[RunState, ...] = ("INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED")


class RequestMiddleware:
    """Counts and times requests by route, never by path: a path has ids in it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route")
        self._seconds = Histogram(
            "mlbench_http_request_seconds", "Time to answer.", labels, registry=registry
        )
        self._requests = Counter(
            "mlbench_http_requests_total", "Answers.", (*labels, "status"), registry=registry
        )

    def process_request(self, req: Request, resp: Response) -> None:
        """Note when the request began."""
        req.context.began = time.perf_counter()

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Count the answer."""
        method = req.method if req.method in falcon.HTTP_METHODS else "other"
        labels = (method, req.uri_template or "none")
        self._seconds.labels(*labels).observe(time.perf_counter() - req.context.began)
        self._requests.labels(*labels, resp.status_code).inc()


class RunsCollector(Collector):
    """Reads runs and the spool from the database at each scrape."""

    def describe(self) -> list[Metric]:
        """Return nothing: names are checked when the app is tested, not when it starts."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series of the newest runs, and how much waits for Prometheus."""
        newest = list(Run.select().order_by(Run.id.desc()).limit(_RUNS_SHOWN))
        yield _info(newest)
        yield _states(newest)
        yield _times(names.RUN_CREATED, "When the run was ordered.", newest, "created_at")
        yield _times(names.RUN_STARTED, "When the run got its workers.", newest, "started_at")
        yield _times(names.RUN_FINISHED, "When the run ended.", newest, "finished_at")
        yield _goals(newest)
        yield GaugeMetricFamily(
            "mlbench_spool_bytes",
            "Bytes of recorded samples that wait for Prometheus.",
            float(waiting_bytes()),
        )
        yield GaugeMetricFamily(
            "mlbench_kept_samples",
            "Samples that Prometheus cannot hold.",
            float(KeptSample.select().count()),
        )


def _info(found: list[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_INFO,
        "What the run is.",
        labels=("run_id", "name", "benchmark", "backend", "workers"),
    )
    for run in found:
        family.add_metric(
            (str(run.id), run.name, run.benchmark, run.backend, str(run.num_workers)), 1.0
        )
    return family


def _states(found: list[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_STATE, "1 for the state that the run is in.", labels=("run_id", "state")
    )
    for run in found:
        for state in _STATES:
            family.add_metric((str(run.id), state), float(run.state == state))
    return family


def _times(name: str, help_text: str, found: list[Run], attribute: str) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=("run_id",))
    for run in found:
        if (moment := getattr(run, attribute)) is not None:
            family.add_metric((str(run.id),), moment)
    return family


def _goals(found: list[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_GOAL, "The value that the run wants to reach.", labels=("run_id", "metric")
    )
    for run in found:
        if run.goal:
            family.add_metric((str(run.id), run.goal["metric"]), run.goal["value"])
    return family
