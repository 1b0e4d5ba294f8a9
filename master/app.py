"""The master: every route of its API and of its web pages on one screen."""

import sys

import falcon
from falcon import Request, Response
from gunicorn.arbiter import Arbiter
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from master import http, http_errors
from master.access import OriginMiddleware, TokenMiddleware
from master.archives.verifying import Verifier
from master.database import UnreachableDatabaseError, explain
from master.models import open_database
from master.reading.promql import CircuitBreaker, PrometheusClient
from master.reading.series import SeriesReader
from master.reading.store import ArchiveStore
from master.recording.limits import SeriesLimit, Spool
from master.resources.alerts import AlertsResource, RunAlertsResource
from master.resources.archives import ArchivesResource, RunArchiveResource
from master.resources.health import (
    HealthResource,
    OpenApiResource,
    OwnMetricsResource,
    ReadyResource,
)
from master.resources.info import BenchmarksResource, InfoResource
from master.resources.logs import LogsResource
from master.resources.metrics import MetricsResource, OwnerMetricsResource
from master.resources.pods import PodsResource
from master.resources.results import CompareResource, MllogResource, ResultResource
from master.resources.runs import (
    EventsResource,
    ManifestResource,
    RunResource,
    RunsResource,
    RunStopResource,
)
from master.resources.sets import SetResource, SetRunsResource, SetsResource
from master.resources.verification import VerificationResource
from master.resources.workers import PollResource, StreamResource
from master.settings import Settings
from master.telemetry import DatabaseCollector, RequestMiddleware
from master.web import assets
from master.web.assets import StaticResource
from master.web.pages import PageResource, SignInResource
from master.web.rendering import PageRenderer, SecurityHeadersMiddleware, page_headers
from master.web.runbooks import RunbookResource
from mlbench.errors import MLBenchError

# With an answer to a query, while a thread waits for it.
_PATIENCE_SECONDS = 5.0


def create_app(settings: Settings, prometheus: PrometheusClient) -> falcon.App[Request, Response]:
    """Return the WSGI app. The database must be open."""
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(settings.url, settings.spool_bytes))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    app = falcon.App()
    app.add_middleware(RequestMiddleware(registry))
    app.add_middleware(OriginMiddleware(settings.allowed_hosts))
    app.add_middleware(TokenMiddleware(settings.token, settings.agent_secret))
    app.add_middleware(SecurityHeadersMiddleware())
    app.add_middleware(http.ParametersMiddleware())
    app.req_options.strip_url_path_trailing_slash = True
    http.write_json(app)
    static = assets.load()
    renderer = PageRenderer(static.prefix, page_headers(settings.grafana_public_url))
    http_errors.install(app, explain)
    app.set_error_serializer(renderer.render_error)

    spool = Spool(settings.spool_bytes)
    limit = SeriesLimit(settings.limits.series)
    reader = SeriesReader(prometheus, ArchiveStore(settings.archive))
    routes: dict[str, object] = {
        "/api/pods": PodsResource(),
        "/api/metrics": MetricsResource(spool, limit, reader),
        "/api/metrics/{owner}": OwnerMetricsResource(reader),
        "/api/runs": RunsResource(settings.limits),
        "/api/runs/{run_id:int}": RunResource(),
        "/api/runs/{run_id:int}/stop": RunStopResource(),
        "/api/runs/{run_id:int}/verification": VerificationResource(
            Verifier(reader, settings.prometheus_url)
        ),
        "/api/runs/{run_id:int}/logs": LogsResource(),
        "/api/runs/{run_id:int}/events": EventsResource(),
        "/api/runs/{run_id:int}/alerts": RunAlertsResource(prometheus),
        "/api/runs/{run_id:int}/manifest": ManifestResource(),
        "/api/runs/{run_id:int}/result": ResultResource(reader),
        "/api/runs/{run_id:int}/mllog": MllogResource(reader),
        "/api/sets": SetsResource(settings.limits),
        "/api/sets/{name}": SetResource(),
        "/api/sets/{name}/runs": SetRunsResource(settings.limits),
        "/api/compare": CompareResource(reader),
        "/api/archives": ArchivesResource(reader),
        "/api/runs/{run_id:int}/archive": RunArchiveResource(reader),
        "/api/alerts": AlertsResource(prometheus),
        "/api/benchmarks": BenchmarksResource(settings.limits),
        "/api/info": InfoResource(settings),
        # The agents' two.
        "/api/workers/{pod}/poll": PollResource(),
        "/api/runs/{run_id:int}/ranks/{rank:int}/{stream}": StreamResource(
            spool, settings.log_bytes
        ),
        # For probes, Prometheus and tools.
        "/healthz": HealthResource(),
        "/readyz": ReadyResource(prometheus),
        "/metrics": OwnMetricsResource(registry),
    }
    routes["/openapi.json"] = OpenApiResource(routes)
    https = settings.url.startswith("https://")
    sign_in = SignInResource(renderer, settings.token, https)
    pages: dict[str, object] = {
        "/": PageResource(sign_in, "workers"),
        "/workers": PageResource(sign_in, "workers"),
        "/workers/{pod}": PageResource(sign_in, "worker"),
        "/runs": PageResource(sign_in, "runs"),
        "/runs/{run_id:int}": PageResource(sign_in, "run"),
        "/compare": PageResource(sign_in, "compare"),
        "/signin": sign_in,
        "/docs/runbooks/{alert}.md": RunbookResource(),
        "/static/{version}/{path:path}": StaticResource(static),
    }
    for route, resource in {**routes, **pages}.items():
        app.add_route(route, resource)
    app.add_route("/signout", sign_in, suffix="out")
    return app


def get_app() -> falcon.App[Request, Response]:
    """Return the app as the environment wants it, for gunicorn: ``master.app:get_app()``."""
    try:
        settings = Settings.from_environ()
        open_database(settings.database_url, settings.reserve_bytes)
    except UnreachableDatabaseError as error:
        sys.exit(str(error))  # gunicorn tries again
    except MLBenchError as error:
        print(error, file=sys.stderr)
        sys.exit(Arbiter.WORKER_BOOT_ERROR)  # and then it ends
    prometheus = PrometheusClient(settings.prometheus_url, _PATIENCE_SECONDS, CircuitBreaker())
    return create_app(settings, prometheus)
