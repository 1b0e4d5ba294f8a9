"""``/healthz``, ``/readyz`` and ``/metrics``: the master's own state, for probes and Prometheus."""

from dataclasses import dataclass

import falcon
from falcon import Request, Response
from peewee import PeeweeException
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from master.auth import Access
from master.database import database
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
    access: Access = "open"

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer 200 if the database and Prometheus answer, else 503."""
        try:
            database.execute_sql("SELECT 1")
        except PeeweeException as error:
            raise falcon.HTTPServiceUnavailable(description=f"the database: {error}") from error
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
