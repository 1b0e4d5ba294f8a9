"""WSGI app of the master: every route of its API and of its web pages on one screen."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import falcon
from falcon import Request, Response
from gunicorn.arbiter import Arbiter
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from mlbench.contract.errors import MLBenchError
from mlbench.contract.extensions import load_all
from mlbench_master.database.connection import UnreachableDatabaseError
from mlbench_master.database.models import open_database
from mlbench_master.http import bodies
from mlbench_master.http import error_responses as http_errors
from mlbench_master.http.access import OriginMiddleware, TokenMiddleware
from mlbench_master.http.proxies import Proxies
from mlbench_master.openapi.operation import Route
from mlbench_master.reading.promql import CircuitBreaker, PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.recording.limits import SeriesLimit, Spool
from mlbench_master.resources.alerts import AlertsResource
from mlbench_master.resources.archives import ArchivesResource
from mlbench_master.resources.diagnosis import DiagnosisResource, EvidenceResource
from mlbench_master.resources.faults import FaultReportsResource, FaultsResource
from mlbench_master.resources.files import FilesResource
from mlbench_master.resources.health import HealthResource, OpenApiResource, OwnMetricsResource
from mlbench_master.resources.info import InfoResource
from mlbench_master.resources.logs import LogsResource
from mlbench_master.resources.metrics import BacklogMiddleware, MetricsResource
from mlbench_master.resources.pods import PodsResource
from mlbench_master.resources.profiles import GivenProfileResource, ProfilesResource
from mlbench_master.resources.results import ResultsResource
from mlbench_master.resources.runs import RunsResource
from mlbench_master.resources.sets import SetsResource
from mlbench_master.resources.storage import StorageResource
from mlbench_master.resources.tokens import TokensResource
from mlbench_master.resources.workers import JoinResource, PollResource, StreamResource
from mlbench_master.runs.diagnoses import verdicts_of
from mlbench_master.services import Services
from mlbench_master.settings import Settings, SettingsError
from mlbench_master.telemetry import DatabaseCollector, RequestMiddleware
from mlbench_master.web import static_assets
from mlbench_master.web.pages import PageResource, RunbookResource, SignInResource
from mlbench_master.web.rendering import PageRenderer, page_headers
from mlbench_master.web.static_assets import StaticResource


class _App(falcon.App[Request, Response]):
    """Responds behind a proxy as without one, and to HEAD as to GET, without the body."""

    def __init__(self, proxies: Proxies) -> None:
        super().__init__()
        self._proxies = proxies

    def __call__(self, env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self._proxies.restore(env)
        if env["REQUEST_METHOD"] != "HEAD":
            return super().__call__(env, start_response)
        body = super().__call__({**env, "REQUEST_METHOD": "GET"}, start_response)
        if close := getattr(body, "close", None):
            close()
        return ()


def create_app(settings: Settings, prometheus: PrometheusClient) -> falcon.App[Request, Response]:
    """Return the WSGI app. The database must be open."""
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(settings.url, settings.spool_bytes, verdicts_of))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    app = _App(settings.proxies)
    app.add_middleware(RequestMiddleware(registry))
    app.add_middleware(BacklogMiddleware())
    app.add_middleware(OriginMiddleware(settings.allowed_hosts))
    app.add_middleware(
        TokenMiddleware(settings.token, settings.agent_secret, settings.url, settings.user)
    )
    app.req_options.strip_url_path_trailing_slash = True
    bodies.write_json(app)
    static = static_assets.load()
    headers = page_headers(settings.grafana_public_url)
    renderer = PageRenderer(settings.proxies.root_path, static.prefix, headers)
    http_errors.install(app)
    app.set_error_serializer(renderer.render_error)

    spool = Spool(settings.spool_bytes)
    reader = SeriesReader(prometheus, ArchiveStore(settings.archive))
    alerts = AlertsResource(prometheus)
    archives = ArchivesResource(reader.archives)
    files = FilesResource(reader.archives)
    health = HealthResource(prometheus)
    info = InfoResource(settings)
    metrics = MetricsResource(spool, SeriesLimit(settings.limits.series), reader)
    results = ResultsResource(reader)
    runs = RunsResource(settings.limits, reader.archives)
    sets = SetsResource(settings.limits)
    storage = StorageResource(prometheus, reader.archives)
    stream = StreamResource(spool, settings.log_bytes)
    tokens = TokensResource(settings.token)
    routes = [
        Route("/api/pods", PodsResource()),
        Route("/api/metrics", metrics),
        Route("/api/metrics/{owner}", metrics, "owner"),
        Route("/api/runs", runs),
        Route("/api/runs/counts", runs, "counts"),
        Route("/api/runs/curves", results, "curves"),
        Route("/api/runs/fields", runs, "fields"),
        Route("/api/runs/groups", runs, "groups"),
        Route("/api/runs/{run_id:int}", runs, "one"),
        Route("/api/runs/{run_id:int}/stop", runs, "stop"),
        Route("/api/runs/{run_id:int}/verification", archives, "verification"),
        Route("/api/runs/{run_id:int}/logs", LogsResource()),
        Route("/api/runs/{run_id:int}/files", files),
        Route("/api/runs/{run_id:int}/files/{file:path}", files, "one"),
        Route("/api/runs/{run_id:int}/events", runs, "events"),
        Route("/api/runs/{run_id:int}/diagnosis", DiagnosisResource()),
        Route("/api/runs/{run_id:int}/profiles", ProfilesResource(reader.archives)),
        Route("/api/runs/{run_id:int}/faults", FaultsResource(settings.limits)),
        Route("/api/runs/{run_id:int}/metrics", metrics, "run"),
        Route("/api/runs/{run_id:int}/alerts", alerts, "run"),
        Route("/api/runs/{run_id:int}/manifest", runs, "manifest"),
        Route("/api/runs/{run_id:int}/result", results),
        Route("/api/runs/{run_id:int}/goodput", results, "goodput"),
        Route("/api/runs/{run_id:int}/breakdown", results, "breakdown"),
        Route("/api/sets", sets),
        Route("/api/sets/{name}", sets, "one"),
        Route("/api/sets/{name}/analysis", sets, "analysis"),
        Route("/api/sets/{name}/stop", sets, "stop"),
        Route("/api/sets/{name}/resume", sets, "resume"),
        Route("/api/compare", results, "comparison"),
        Route("/api/runs/{run_id:int}/archive", archives, "run"),
        Route("/api/alerts", alerts),
        Route("/api/benchmarks", info, "benchmarks"),
        Route("/api/info", info),
        Route("/api/info/storage", storage),
        Route("/api/tokens", tokens),
        Route("/api/tokens/{token_id}", tokens, "one"),
        # Called by agents and recorders.
        Route("/api/join", JoinResource(settings.limits, settings.agent_secret)),
        Route("/api/workers/{pod}/poll", PollResource()),
        Route("/api/workers/{pod}/diagnoses/{diagnosis_id:int}", EvidenceResource()),
        Route("/api/workers/{pod}/profiles/{profile_id:int}", GivenProfileResource()),
        Route("/api/workers/{pod}/runs/{run_id:int}/faults/{fault_id:int}", FaultReportsResource()),
        Route("/api/runs/{run_id:int}/ranks/{rank:int}/{stream}", stream),
        # Called by probes, Prometheus and tools.
        Route("/healthz", health),
        Route("/readyz", health, "ready"),
        Route("/metrics", OwnMetricsResource(registry)),
    ]
    services = Services(settings, reader)
    for extension in load_all("mlbench.routes").values():
        routes += extension(services)
    routes.append(Route("/openapi.json", OpenApiResource(routes, settings.proxies.root_path)))
    sign_in = SignInResource(renderer, settings.token, https=settings.url.startswith("https://"))
    pages = [
        Route("/", PageResource(sign_in, "home")),
        Route("/workers", PageResource(sign_in, "workers")),
        Route("/workers/{pod}", PageResource(sign_in, "worker")),
        Route("/runs", PageResource(sign_in, "runs")),
        Route("/runs/{run_id:int}", PageResource(sign_in, "run")),
        Route("/sets", PageResource(sign_in, "sets")),
        Route("/sets/{set_name}", PageResource(sign_in, "set")),
        Route("/compare", PageResource(sign_in, "compare")),
        Route("/signin", sign_in),
        Route("/signout", sign_in, "out"),
        Route("/docs/runbooks/{alert}.md", RunbookResource()),
        Route("/static/{version}/{path:path}", StaticResource(static)),
    ]
    for path, resource, suffix in (*routes, *pages):
        # A path such as /runs would be removed from the requests of a page of that name.
        if path.split("/")[1] == settings.proxies.root_path[1:].split("/")[0] != "":
            raise SettingsError(
                f"$MLBENCH_ROOT_PATH: must not begin as the paths of the master do (got "
                f"{settings.proxies.root_path!r}). Choose another path, such as /mlbench."
            )
        app.add_route(path, resource, suffix=suffix)
    return app


def get_app() -> falcon.App[Request, Response]:
    """Return the app that gunicorn serves, with settings from the environment."""
    try:
        settings = Settings.from_environ()
        open_database(settings.database_url, settings.reserve_bytes)
        prometheus = PrometheusClient(settings.prometheus_url, 5.0, CircuitBreaker())
        return create_app(settings, prometheus)
    except UnreachableDatabaseError as error:
        sys.exit(str(error))  # gunicorn starts the worker again
    except MLBenchError as error:
        print(error, file=sys.stderr)
        sys.exit(Arbiter.WORKER_BOOT_ERROR)  # gunicorn exits
