"""The master's API: every route on one screen."""

import falcon
from falcon import Request, Response
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from master import errors, media
from master.auth import TokenMiddleware
from master.models import open_database
from master.openapi import document
from master.origin import OriginMiddleware
from master.reading.promql import PrometheusClient
from master.reading.series import SeriesReader
from master.recording.spool import Spool
from master.resources.benchmarks import BenchmarksResource
from master.resources.health import HealthResource, OwnMetricsResource, ReadyResource
from master.resources.logs import LogsResource
from master.resources.manifest import ManifestResource
from master.resources.metrics import MetricsResource, OwnerMetricsResource
from master.resources.openapi import OpenApiResource
from master.resources.pods import PodsResource
from master.resources.results import CompareResource, ResultResource
from master.resources.runs import RunResource, RunsResource, RunStopResource
from master.resources.workers import PollResource, StreamResource
from master.settings import Settings
from master.telemetry.master import MasterCollector
from master.telemetry.pods import PodsCollector
from master.telemetry.requests import RequestMiddleware
from master.telemetry.runs import RunsCollector


def create_app(settings: Settings, prometheus: PrometheusClient) -> falcon.App[Request, Response]:
    """Return the WSGI app. The database must be open."""
    registry = CollectorRegistry()
    for collector in (
        MasterCollector(settings.url, settings.spool_bytes),
        RunsCollector(),
        PodsCollector(),
    ):
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    app = falcon.App()
    app.add_middleware(RequestMiddleware(registry))
    app.add_middleware(OriginMiddleware(settings.allowed_hosts))
    app.add_middleware(TokenMiddleware(settings.token, settings.agent_token))
    app.req_options.strip_url_path_trailing_slash = True
    media.install(app)
    errors.install(app)

    spool = Spool(settings.spool_bytes)
    reader = SeriesReader(prometheus)
    app.add_route("/api/pods", PodsResource())
    app.add_route("/api/metrics", MetricsResource(spool, reader))
    app.add_route("/api/metrics/{owner}", OwnerMetricsResource(reader))
    app.add_route("/api/runs", RunsResource(settings.limits))
    app.add_route("/api/runs/{run_id:int}", RunResource())
    app.add_route("/api/runs/{run_id:int}/stop", RunStopResource())
    app.add_route("/api/runs/{run_id:int}/logs", LogsResource())
    app.add_route("/api/runs/{run_id:int}/manifest", ManifestResource())
    app.add_route("/api/runs/{run_id:int}/result", ResultResource(reader))
    app.add_route("/api/compare", CompareResource(reader))
    app.add_route("/api/benchmarks", BenchmarksResource())

    # The agents' two.
    app.add_route("/api/workers/{pod}/poll", PollResource())
    app.add_route("/api/runs/{run_id:int}/ranks/{rank:int}/{stream}", StreamResource(spool))

    # For probes, Prometheus and tools.
    app.add_route("/healthz", HealthResource())
    app.add_route("/readyz", ReadyResource(prometheus))
    app.add_route("/metrics", OwnMetricsResource(registry))
    app.add_route("/openapi.json", OpenApiResource(document.build()))
    return app


def get_app() -> falcon.App[Request, Response]:
    """Return the app as the environment wants it, for gunicorn: ``master.app:get_app()``."""
    settings = Settings.from_environ()
    open_database(settings.database_url)
    return create_app(settings, PrometheusClient(settings.prometheus_url))
