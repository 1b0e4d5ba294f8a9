"""Write the table of routes and roles into docs/people.md."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from falcon.inspect import inspect_routes

from mlbench.contract.people import Role
from mlbench_master.app import create_app
from mlbench_master.http.access import access_of, roles_of
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import Settings

_PAGE = Path(__file__).parents[1] / "docs" / "people.md"
_HEADING = "## Routes and roles\n"


def rows() -> Iterator[tuple[str, str, frozenset[Role]]]:
    """Yield the method, path and roles of each route that requires the token of a user."""
    environ = {"MLBENCH_PROMETHEUS_URL": "http://127.0.0.1:9090"}
    environ |= {"MLBENCH_TOKEN": "t", "MLBENCH_AGENT_SECRET": "s"}
    app = create_app(Settings.from_environ(environ), PrometheusClient("http://127.0.0.1:9090"))
    for route in sorted(inspect_routes(app), key=lambda route: route.path):
        match = app._router.find(re.sub("{[^}]+}", "1", route.path))
        assert match
        if access_of(match[0]) not in ("open", "agent", "scrape"):
            for method in route.methods:
                if not method.internal:
                    yield method.method, route.path, roles_of(match[0], method.method)


def page() -> str:
    """Return the page with the table of today after its heading."""
    routes: dict[frozenset[Role], list[str]] = {}
    for method, path, allowed in rows():
        routes.setdefault(allowed, []).append(f"`{method} {path.replace(':int', '')}`")
    lines = [
        f"| {', '.join(f'`{role}`' for role in get_args(Role) if role in allowed)} "
        f"| {', '.join(names)} |\n"
        for allowed, names in routes.items()
    ]
    head, _, _ = _PAGE.read_text().partition(_HEADING)
    return f"{head}{_HEADING}\n| roles | routes |\n|---|---|\n{''.join(lines)}"


if __name__ == "__main__":
    _PAGE.write_text(page())
