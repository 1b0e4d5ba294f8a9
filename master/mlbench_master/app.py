"""The master: every route of its API and of its web pages on one screen."""

import sys

import falcon
from falcon import Request, Response
from gunicorn.arbiter import Arbiter
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from mlbench.errors import MLBenchError
from mlbench_master import http, http_errors
from mlbench_master.access import OriginMiddleware, TokenMiddleware
from mlbench_master.archives.verifying import Verifier
from mlbench_master.database import UnreachableDatabaseError, explain
from mlbench_master.models import open_database
from mlbench_master.reading.promql import CircuitBreaker, PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.limits import SeriesLimit, Spool
from mlbench_master.resources.alerts import AlertsResource, RunAlertsResource
from mlbench_master.resources.archives import ArchivesResource, RunArchiveResource
from mlbench_master.resources.health import (
    HealthResource,
    OpenApiResource,
    OwnMetricsResource,
    ReadyResource,
)
from mlbench_master.resources.info import BenchmarksResource, InfoResource
from mlbench_master.resources.logs import LogsResource
from mlbench_master.resources.metrics import (
    MetricsResource,
    OwnerMetricsResource,
    RunMetricsResource,
)
from mlbench_master.resources.pods import PodsResource
from mlbench_master.resources.results import CompareResource, MllogResource, ResultResource
from mlbench_master.resources.runs import (
    EventsResource,
    ManifestResource,
    RunCountsResource,
    RunResource,
    RunsResource,
    RunStopResource,
)
from mlbench_master.resources.sets import SetResource, SetRunsResource, SetsResource
from mlbench_master.resources.verification import VerificationResource
from mlbench_master.resources.workers import PollResource, StreamResource
from mlbench_master.settings import Settings
from mlbench_master.telemetry import DatabaseCollector, RequestMiddleware
from mlbench_master.web import assets
from mlbench_master.web.assets import StaticResource
from mlbench_master.web.pages import PageResource, SignInResource
from mlbench_master.web.rendering import PageRenderer, SecurityHeadersMiddleware, page_headers
from mlbench_master.web.runbooks import RunbookResource

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
    app.add_middleware(http.CompactMiddleware())
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
        "/api/runs/counts": RunCountsResource(),
        "/api/runs/{run_id:int}": RunResource(),
        "/api/runs/{run_id:int}/stop": RunStopResource(),
        "/api/runs/{run_id:int}/verification": VerificationResource(
            Verifier(reader, settings.prometheus_url)
        ),
        "/api/runs/{run_id:int}/logs": LogsResource(),
        "/api/runs/{run_id:int}/events": EventsResource(),
        "/api/runs/{run_id:int}/metrics": RunMetricsResource(reader),
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
    """Return the app that gunicorn serves, with settings from the environment."""
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
