"""The routes of the master, as the tests of access and of odd values go through them."""

import re
from collections.abc import Mapping

from falcon.inspect import inspect_routes
from falcon.testing import TestClient

Route = tuple[str, str]  # method, template

USER_ROUTES: list[Route] = [
    ("GET", "/api/pods"),
    ("GET", "/api/metrics"),
    ("GET", "/api/metrics/{owner}"),
    ("POST", "/api/metrics"),
    ("GET", "/api/runs"),
    ("POST", "/api/runs"),
    ("GET", "/api/runs/{run_id:int}"),
    ("PATCH", "/api/runs/{run_id:int}"),
    ("DELETE", "/api/runs/{run_id:int}"),
    ("POST", "/api/runs/{run_id:int}/stop"),
    ("POST", "/api/runs/{run_id:int}/verification"),
    ("GET", "/api/runs/{run_id:int}/logs"),
    ("GET", "/api/runs/{run_id:int}/files"),
    ("GET", "/api/runs/{run_id:int}/files/{file:path}"),
    ("GET", "/api/runs/{run_id:int}/events"),
    ("GET", "/api/runs/{run_id:int}/alerts"),
    ("GET", "/api/runs/{run_id:int}/autopsy"),
    ("POST", "/api/runs/{run_id:int}/autopsy"),
    ("POST", "/api/runs/{run_id:int}/faults"),
    ("GET", "/api/runs/{run_id:int}/manifest"),
    ("GET", "/api/runs/{run_id:int}/profiles"),
    ("POST", "/api/runs/{run_id:int}/profiles"),
    ("GET", "/api/runs/{run_id:int}/metrics"),
    ("GET", "/api/runs/{run_id:int}/result"),
    ("GET", "/api/runs/{run_id:int}/goodput"),
    ("GET", "/api/runs/{run_id:int}/mllog"),
    ("GET", "/api/runs/counts"),
    ("GET", "/api/runs/curves"),
    ("GET", "/api/runs/fields"),
    ("GET", "/api/runs/groups"),
    ("GET", "/api/runs/{run_id:int}/archive"),
    ("POST", "/api/archives"),
    ("GET", "/api/sets"),
    ("POST", "/api/sets"),
    ("GET", "/api/sets/{name}"),
    ("GET", "/api/sets/{name}/analysis"),
    ("POST", "/api/sets/{name}/runs"),
    ("GET", "/api/compare"),
    ("GET", "/api/alerts"),
    ("GET", "/api/benchmarks"),
    ("GET", "/api/info"),
]
AGENT_ROUTES: list[Route] = [
    ("POST", "/api/workers/{pod}/poll"),
    ("PUT", "/api/workers/{pod}/autopsies/{autopsy_id:int}"),
    ("PUT", "/api/workers/{pod}/profiles/{profile_id:int}"),
    ("PUT", "/api/workers/{pod}/runs/{run_id:int}/faults/{fault_id:int}"),
    ("PUT", "/api/runs/{run_id:int}/ranks/{rank:int}/{stream}"),
]
JOIN_ROUTES: list[Route] = [("POST", "/api/join")]
OPEN_ROUTES: list[Route] = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
]
ALL_ROUTES = [*USER_ROUTES, *AGENT_ROUTES, *JOIN_ROUTES, *OPEN_ROUTES]
"""Of the API."""

PAGES: list[Route] = [
    ("GET", "/"),
    ("GET", "/runs"),
    ("GET", "/runs/{run_id:int}"),
    ("GET", "/sets"),
    ("GET", "/sets/{set_name}"),
    ("GET", "/compare"),
    ("GET", "/workers"),
    ("GET", "/workers/{pod}"),
    ("GET", "/signin"),
]
WEB_ROUTES: list[Route] = [
    *PAGES,
    ("POST", "/signin"),
    ("POST", "/signout"),
    ("GET", "/static/{version}/{path:path}"),
    ("GET", "/docs/runbooks/{alert}.md"),
]
"""For browsers; no part of the API."""

_USUAL = {
    "owner": "1",
    "run_id": "1",
    "rank": "0",
    "autopsy_id": "1",
    "profile_id": "1",
    "fault_id": "1",
    "name": "scaling",
    "pod": "w-0",
    "stream": "metrics",
    "file": "plots/loss.csv",
}
_USUAL |= {"name": "scaling", "set_name": "scaling", "version": "0", "path": "style.css"}
_USUAL |= {"alert": "MLBenchRunStalled"}


def fill(template: str, values: Mapping[str, str] | None = None) -> str:
    """Return a path of the route, with the given values in place of the usual ones."""
    found = _USUAL | dict(values or {})
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: found[match[1]], template)


def routes_of(api: TestClient) -> set[Route]:
    """Return the routes that the app really has, of the API and for browsers."""
    return {
        (method.method, route.path)
        for route in inspect_routes(api.app)
        for method in route.methods
        if not method.internal
    }
