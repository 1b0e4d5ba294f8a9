"""Health, metrics and API description of the master, for probes, Prometheus and tools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from falcon import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from mlbench.contract.records import Health
from mlbench_master.database.connection import WriteTest
from mlbench_master.errors import ServiceUnavailableError
from mlbench_master.http.access import Access
from mlbench_master.openapi.document import build
from mlbench_master.openapi.operation import Route, operation
from mlbench_master.reading.promql import PrometheusClient


@dataclass(frozen=True)
class HealthResource:
    """``/healthz``: whether the process is alive; ``/readyz``: whether it can serve requests."""

    prometheus: PrometheusClient
    write_test: WriteTest = field(default_factory=WriteTest)
    access: Access = "open"

    @operation("get_health", "The process is alive.", Health)
    def on_get(self, req: Request, resp: Response) -> None:
        """Check that the process is alive."""
        resp.media = Health()

    @operation("get_readiness", "The database and Prometheus respond.", Health, errors=(503,))
    def on_get_ready(self, req: Request, resp: Response) -> None:
        """Check that the database can be written and Prometheus responds, else 503."""
        self.write_test.check()
        if not self.prometheus.ready():
            raise ServiceUnavailableError("Prometheus is not ready")
        resp.media = Health()


@dataclass(frozen=True)
class OwnMetricsResource:
    """``/metrics``: the metrics endpoint that Prometheus scrapes."""

    registry: CollectorRegistry
    access: Access = "scrape"

    @operation(
        "get_own_metrics",
        "The master's own metrics, in Prometheus's text format.",
        files={CONTENT_TYPE_LATEST: {"type": "string"}},
        errors=(421,),
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """Return the metrics of the master in Prometheus's text format."""
        resp.data = generate_latest(self.registry)
        resp.content_type = CONTENT_TYPE_LATEST  # set last, because errors are JSON


@dataclass(frozen=True)
class OpenApiResource:
    """``/openapi.json``: the OpenAPI document, which contains no secrets."""

    routes: Iterable[Route]
    root_path: str
    """Path below which clients reach the API; empty: at ``/``."""
    access: Access = "open"

    @cached_property
    def document(self) -> Mapping[str, Any]:
        return build(self.routes, self.root_path)

    @operation("get_openapi", "This document.", dict[str, Any])
    def on_get(self, req: Request, resp: Response) -> None:
        """Return the OpenAPI 3.1 document of this API."""
        resp.media = self.document
