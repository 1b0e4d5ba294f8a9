"""Routes of the master, with values for their parameters."""

import re
from collections.abc import Mapping

from falcon.inspect import inspect_routes
from falcon.testing import TestClient

Route = tuple[str, str]  # method, template


def _routes(paths: Mapping[str, str]) -> list[Route]:
    return [(method, path) for path, methods in paths.items() for method in methods.split()]


USER_ROUTES = _routes(
    {
        "/api/pods": "GET",
        "/api/metrics": "GET POST",
        "/api/metrics/{owner}": "GET",
        "/api/runs": "GET POST",
        "/api/runs/counts": "GET",
        "/api/runs/curves": "GET",
        "/api/runs/fields": "GET",
        "/api/runs/groups": "GET",
        "/api/runs/{run_id:int}": "GET PATCH DELETE",
        "/api/runs/{run_id:int}/stop": "POST",
        "/api/runs/{run_id:int}/verification": "POST",
        "/api/runs/{run_id:int}/logs": "GET",
        "/api/runs/{run_id:int}/files": "GET",
        "/api/runs/{run_id:int}/files/{file:path}": "GET",
        "/api/runs/{run_id:int}/events": "GET",
        "/api/runs/{run_id:int}/alerts": "GET",
        "/api/runs/{run_id:int}/diagnosis": "GET POST",
        "/api/runs/{run_id:int}/faults": "POST",
        "/api/runs/{run_id:int}/manifest": "GET",
        "/api/runs/{run_id:int}/profiles": "GET POST",
        "/api/runs/{run_id:int}/metrics": "GET",
        "/api/runs/{run_id:int}/result": "GET",
        "/api/runs/{run_id:int}/goodput": "GET",
        "/api/runs/{run_id:int}/breakdown": "GET",
        "/api/runs/{run_id:int}/mllog": "GET",
        "/api/runs/{run_id:int}/archive": "GET",
        "/api/archives": "POST",
        "/api/sets": "GET POST",
        "/api/sets/{name}": "GET",
        "/api/sets/{name}/analysis": "GET",
        "/api/sets/{name}/resume": "POST",
        "/api/sets/{name}/stop": "POST",
        "/api/compare": "GET",
        "/api/alerts": "GET",
        "/api/benchmarks": "GET",
        "/api/info": "GET",
        "/api/info/storage": "GET",
        "/api/tokens": "GET POST",
        "/api/tokens/{token_id}": "DELETE",
    }
)
AGENT_ROUTES = _routes(
    {
        "/api/workers/{pod}/poll": "POST",
        "/api/workers/{pod}/diagnoses/{diagnosis_id:int}": "PUT",
        "/api/workers/{pod}/profiles/{profile_id:int}": "PUT",
        "/api/workers/{pod}/runs/{run_id:int}/faults/{fault_id:int}": "PUT",
        "/api/runs/{run_id:int}/ranks/{rank:int}/{stream}": "PUT",
    }
)
JOIN_ROUTES = [("POST", "/api/join")]
OPEN_ROUTES = [("GET", path) for path in ("/healthz", "/readyz", "/metrics", "/openapi.json")]
ALL_ROUTES = [*USER_ROUTES, *AGENT_ROUTES, *JOIN_ROUTES, *OPEN_ROUTES]
"""All routes of the API."""

_PAGES = ("/", "/runs", "/runs/{run_id:int}", "/sets", "/sets/{set_name}", "/compare", "/workers")
PAGES = [("GET", path) for path in (*_PAGES, "/workers/{pod}", "/signin")]
WEB_ROUTES = [
    *PAGES,
    ("POST", "/signin"),
    ("POST", "/signout"),
    ("GET", "/static/{version}/{path:path}"),
    ("GET", "/docs/runbooks/{alert}.md"),
]
"""Routes for browsers, which are not part of the API."""

_USUAL = {
    **dict.fromkeys(("owner", "run_id", "diagnosis_id", "profile_id", "fault_id"), "1"),
    **{"rank": "0", "pod": "w-0", "stream": "metrics", "file": "plots/loss.csv"},
    **{"name": "scaling", "set_name": "scaling", "version": "0", "path": "style.css"},
    **{"alert": "MLBenchRunStalled", "token_id": "ab12"},
}


def fill(template: str, values: Mapping[str, str] | None = None) -> str:
    """Return the path of a route, with ``values`` or the default values of its parameters."""
    found = _USUAL | dict(values or {})
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: found[match[1]], template)


def routes_of(api: TestClient) -> set[Route]:
    """Return the routes registered in the app."""
    routes = [(method, route.path) for route in inspect_routes(api.app) for method in route.methods]
    return {(method.method, path) for method, path in routes if not method.internal}
