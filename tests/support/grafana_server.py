"""A small Grafana for tests: an HTTP server that responds as Grafana's API documentation says.

Roles, conflicts and status codes follow the documentation. Tests can select a fault.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from tests.support.scripted import Asked, Reply, answering

Fault = Literal["", "hang", "garbage", "error page", "list", "500"]
Json = dict[str, Any]

VIEWER, EDITOR, ADMIN = "glsa_viewer", "glsa_editor", "glsa_admin"
PASSWORD = "admin:pass:wörd"
_ROLES = (VIEWER, EDITOR, ADMIN)

# Fields that only a data source's own endpoint returns, not the list.
_NOT_LISTED = frozenset({"basicAuthUser", "secureJsonFields", "version"})


@dataclass
class GrafanaServer:
    """A running server: the objects it stores, and the requests it received."""

    url: str = ""
    folders: dict[str, Json] = field(default_factory=dict)
    data_sources: list[Json] = field(default_factory=list)
    dashboards: dict[str, Json] = field(default_factory=dict)
    """Dashboards by uid, as ``{"dashboard", "meta"}``."""
    messages: dict[str, list[str]] = field(default_factory=dict)
    """Version messages of each dashboard, by uid."""
    log: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request."""
    version: str = "10.0.0"
    """Reported version, or "" to hide it."""
    lists_versions_plainly: bool = False
    """Whether versions are listed in Grafana 10's format."""
    fault: Fault = ""

    def written(self) -> list[str]:
        """Return the paths of all requests other than GET."""
        return [path for method, path in self.log if method != "GET"]


_FAULTS: dict[str, Reply] = {
    "hang": Reply(None, seconds=60),
    "garbage": Reply(body=b"\x00\xff{not json"),
    "error page": Reply(502, b"<html>a message of a proxy</html>"),
    "list": Reply(body=["something", "else"]),
    "500": Reply(500, {"message": "database is locked"}),
}


class _RefusalError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def serve_grafana(port: int = 0, path: str = "") -> Iterator[GrafanaServer]:
    """Serve an empty Grafana on a local port, below ``path``."""
    state = GrafanaServer()
    with answering(lambda request: _reply(state, path, request), port) as server:
        state.url = f"{server.url}{path}"
        yield state


def _reply(state: GrafanaServer, base: str, request: Asked) -> Reply:
    path = urlsplit(request.path).path
    route = path.removeprefix(f"{base}/api")
    state.log.append((request.method, route))
    if state.fault:
        return _FAULTS[state.fault]
    if not path.startswith(f"{base}/api/"):
        return Reply(404, b"<html>this message is no JSON</html>")
    try:
        return Reply(body=_answer(state, route, request))
    except _RefusalError as refusal:
        return Reply(refusal.status, {"message": str(refusal)})


def _answer(state: GrafanaServer, route: str, request: Asked) -> Any:  # noqa: PLR0911 - one line per route
    content = json.loads(request.body) if request.method != "GET" else {}
    if route == "/health":
        return {"commit": "0", "database": "ok", "version": state.version}
    role = _role(request)
    match (request.method, *route.split("/")[1:]):
        case "GET", "folders", uid:
            return _find(state.folders, uid)
        case "POST", "folders":
            _need(role, EDITOR, "folders:create")
            return state.folders.setdefault(content["uid"], content)
        case "GET", "datasources":
            _need(role, ADMIN, "datasources:read")
            return [
                {key: value for key, value in source.items() if key not in _NOT_LISTED}
                for source in state.data_sources
            ]
        case "POST", "datasources":
            return _store_data_source(state, {"readOnly": False, "version": 0}, content)
        case "GET", "datasources", "uid", uid:
            return _find({entry["uid"]: entry for entry in state.data_sources}, uid)
        case "PUT", "datasources", "uid", uid:
            source = _find({entry["uid"]: entry for entry in state.data_sources}, uid)
            return _store_data_source(state, source, content)
        case "GET", "dashboards", "uid", uid:
            return _find(state.dashboards, uid)
        case "GET", "dashboards", "uid", uid, "versions":
            versions = [{"message": message} for message in reversed(state.messages.get(uid, []))]
            return versions if state.lists_versions_plainly else {"versions": versions}
        case "POST", "dashboards", "db":
            return _store_dashboard(state, content)
    raise _RefusalError(404, "Not found")


def _role(request: Asked) -> str:
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind == "Bearer" and value in _ROLES:
        return value
    if kind == "Basic" and base64.b64decode(value).decode() == PASSWORD:
        return ADMIN
    raise _RefusalError(401, "Invalid username or password")


def _need(role: str, needed: str, permission: str) -> None:
    if _ROLES.index(role) < _ROLES.index(needed):
        raise _RefusalError(403, f"Permissions needed: {permission}")


def _find(entries: dict[str, Json], uid: str) -> Json:
    if uid not in entries:
        raise _RefusalError(404, f"{uid} not found")
    return entries[uid]


def _store_data_source(state: GrafanaServer, source: Json, content: Json) -> Json:
    if source["readOnly"]:
        raise _RefusalError(403, "Cannot update read-only data source")
    if any(other["name"] == content["name"] for other in state.data_sources if other is not source):
        raise _RefusalError(409, "data source with the same name already exists")
    if content.get("version", source["version"]) != source["version"]:
        raise _RefusalError(409, "Datasource has already been updated by someone else")
    if source not in state.data_sources:
        state.data_sources.append(source)
    secrets = dict.fromkeys(content.pop("secureJsonData", {}), True)
    secret_fields = {**source.get("secureJsonFields", {}), **secrets}
    source.update(
        {"basicAuth": False, "basicAuthUser": "", "isDefault": False, **content},
        secureJsonFields=secret_fields,
        version=source["version"] + 1,
    )
    return {"datasource": source}


def _store_dashboard(state: GrafanaServer, content: Json) -> Json:
    board, uid = content["dashboard"], content["dashboard"]["uid"]
    existing = state.dashboards.get(uid)
    if content["folderUid"] not in state.folders:
        raise _RefusalError(400, "folder not found")
    if board.get("id"):
        raise _RefusalError(404, "Dashboard not found")
    if existing and existing["meta"]["provisioned"]:
        raise _RefusalError(400, "Cannot save provisioned dashboard")
    if existing and not content.get("overwrite"):
        raise _RefusalError(412, "A dashboard with the same uid already exists")
    version = existing["dashboard"]["version"] + 1 if existing else 1
    state.messages.setdefault(uid, []).append(content["message"])
    state.dashboards[uid] = {
        "dashboard": {**board, "id": len(state.messages), "version": version},
        "meta": {"folderUid": content["folderUid"], "provisioned": False},
    }
    return {"uid": uid, "status": "success", "version": version}
