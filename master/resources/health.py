"""``/healthz``, ``/readyz`` and ``/metrics``: the master's own state, for probes and Prometheus."""

from dataclasses import dataclass, field

import falcon
from falcon import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from master.auth import Access
from master.readiness import NotWritableError, WriteTest
from master.reading.promql import PrometheusClient


class HealthResource:
    """Whether the process is alive."""

    access: Access = "open"

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer at all."""
        resp.media = {"status": "ok"}


@dataclass(frozen=True)
class ReadyResource:
    """Whether the API can do its work."""

    prometheus: PrometheusClient
    write_test: WriteTest = field(default_factory=WriteTest)
    access: Access = "open"

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer 200 if the database can be written and Prometheus answers, else 503."""
        try:
            self.write_test.check()
        except NotWritableError as error:
            raise falcon.HTTPServiceUnavailable(description=str(error)) from error
        if not self.prometheus.ready():
            raise falcon.HTTPServiceUnavailable(description="Prometheus is not ready")
        resp.media = {"status": "ok"}


@dataclass(frozen=True)
class OwnMetricsResource:
    """What Prometheus scrapes."""

    registry: CollectorRegistry
    access: Access = "open"
    any_host: bool = False
    """Prometheus calls it by its address; a page must not read it by a name that leads here."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer in Prometheus's text format."""
        resp.content_type = CONTENT_TYPE_LATEST
        resp.data = generate_latest(self.registry)
