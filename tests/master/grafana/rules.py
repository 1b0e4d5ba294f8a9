"""What the small Grafana has, and how its API answers: as documented for Grafana 10 and later."""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fault = Literal["", "hang", "garbage", "error page", "list", "500", "drop after storing"]

_UID = re.compile(r"[a-zA-Z0-9\-_]{1,40}")
# What only a data source's own page tells, not the list.
_NOT_LISTED = frozenset({"basicAuthUser", "secureJsonFields", "version"})

VIEWER_ROLE, EDITOR_ROLE, ADMIN_ROLE = 1, 2, 3


@dataclass(frozen=True)
class Request:
    """A request of a user who is known, as far as the API looks at it."""

    method: str
    route: str
    query: Mapping[str, list[str]]
    content: dict[str, Any]
    role: int

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the method and the parts of the route."""
        return (self.method, *self.route.split("/")[1:])

    def need(self, role: int, permission: str) -> None:
        """Refuse a user of a lower role."""
        if self.role < role:
            raise RefusalError(
                403,
                "You'll need additional permissions to perform this action. "
                f"Permissions needed: {permission}",
                title="Access denied",
            )


class RefusalError(Exception):
    """A status other than 200, and its body."""

    def __init__(self, code: int, message: str, **more: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"message": message, **more}


@dataclass
class GrafanaState:
    """What the server has, and what it was asked."""

    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    data_sources: list[dict[str, Any]] = field(default_factory=list)
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By uid, as ``{"dashboard", "meta"}``."""
    messages: dict[str, list[str]] = field(default_factory=dict)
    """By uid, what was said of each version of a dashboard."""
    annotations: list[dict[str, Any]] = field(default_factory=list)
    passwords: dict[str, str] = field(default_factory=lambda: {"admin": "pass:wörd"})
    log: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and status of each request."""
    is_old: bool = False
    """Whether versions are listed as Grafana 10 does, or as later ones do."""
    fault: Fault = ""
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def written(self) -> list[str]:
        """Return the paths of requests that were to change something."""
        return [path for method, path, _ in self.log if method != "GET"]


def answer(state: GrafanaState, request: Request, base: str) -> Any:
    """Return the content of an answer with status 200.

    Raises:
        RefusalError: it is another status.
    """
    content = request.content
    found: Any
    match request.parts:
        case "GET", "folders", uid:
            found = _one(state.folders, uid, "folder not found")
        case "POST", "folders":
            request.need(EDITOR_ROLE, "folders:create")
            found = _create_folder(state, content)
        case "GET", "datasources":
            request.need(ADMIN_ROLE, "datasources:read")
            found = [_listed(source) for source in state.data_sources]
        case "POST", "datasources":
            request.need(ADMIN_ROLE, "datasources:create")
            found = _create_data_source(state, content)
        case "GET", "datasources", "uid", uid:
            request.need(ADMIN_ROLE, "datasources:read")
            found = _data_source(state, uid)
        case "PUT", "datasources", "uid", uid:
            request.need(ADMIN_ROLE, "datasources:write")
            found = _update_data_source(state, uid, content)
        case "GET", "dashboards", "uid", uid:
            found = _one(state.dashboards, uid, "Dashboard not found")
        case "GET", "dashboards", "uid", uid, "versions":
            versions = [{"message": one} for one in reversed(state.messages.get(uid, []))]
            found = versions if state.is_old else {"continueToken": "", "versions": versions}
        case "POST", "dashboards", "db":
            request.need(EDITOR_ROLE, "dashboards:write")
            found = _save_dashboard(state, content, base)
        case "GET", "annotations":
            found = _find_annotations(state, request.query)
        case "POST", "annotations":
            request.need(EDITOR_ROLE, "annotations:create")
            found = _add_annotation(state, content)
        case _:
            raise RefusalError(404, "Not found")
    return found


def _one(things: dict[str, dict[str, Any]], uid: str, otherwise: str) -> dict[str, Any]:
    if uid not in things:
        raise RefusalError(404, otherwise, status="not-found")
    return things[uid]


def _create_folder(state: GrafanaState, content: dict[str, Any]) -> Any:
    title, uid = content.get("title"), content.get("uid")
    if not title:
        raise RefusalError(400, "folder title cannot be empty")
    if not (isinstance(uid, str) and _UID.fullmatch(uid)):
        raise RefusalError(400, "uid contains illegal characters")
    if uid in state.folders:
        raise RefusalError(409, "a folder with the same UID already exists")
    state.folders[uid] = {"id": len(state.folders) + 1, "uid": uid, "title": title, "version": 1}
    return state.folders[uid]


def _listed(source: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in source.items() if key not in _NOT_LISTED}


def _check_data_source(state: GrafanaState, content: dict[str, Any], uid: str | None) -> None:
    for name in ("name", "type", "access"):
        if not content.get(name):
            raise RefusalError(400, "bad request data")
    if content["access"] not in {"proxy", "direct"}:
        raise RefusalError(400, "bad request data")
    for other in state.data_sources:
        if other["uid"] == uid:
            continue
        if other["name"] == content["name"]:
            raise RefusalError(409, "data source with the same name already exists")
        if other["uid"] == content.get("uid"):
            raise RefusalError(409, "data source with the same uid already exists")


def _create_data_source(state: GrafanaState, content: dict[str, Any]) -> Any:
    _check_data_source(state, content, None)
    source = {
        **_data_source_content(content),
        "id": len(state.data_sources) + 1,
        "uid": content.get("uid") or f"made-up-{time.time_ns()}",
        "secureJsonFields": dict.fromkeys(content.get("secureJsonData") or {}, True),
        "version": 1,
        "readOnly": False,
    }
    state.data_sources.append(source)
    return {"id": source["id"], "message": "Datasource added", "datasource": source}


def _data_source_content(content: dict[str, Any]) -> dict[str, Any]:
    """Return all that a request sets; what it does not name is empty."""
    empty = {"url": "", "basicAuth": False, "basicAuthUser": "", "isDefault": False}
    named = {key: content[key] for key in (*empty, "name", "type", "access") if key in content}
    return {**empty, **named, "orgId": 1, "jsonData": content.get("jsonData") or {}}


def _data_source(state: GrafanaState, uid: str) -> dict[str, Any]:
    for source in state.data_sources:
        if source["uid"] == uid:
            return source
    raise RefusalError(404, "Data source not found")


def _update_data_source(state: GrafanaState, uid: str, content: dict[str, Any]) -> Any:
    source = _data_source(state, uid)
    if source["readOnly"]:
        raise RefusalError(403, "Cannot update read-only data source")
    _check_data_source(state, content, uid)
    if content.get("version") not in {None, 0, source["version"]}:
        raise RefusalError(409, "Datasource has already been updated by someone else")
    source["secureJsonFields"] |= dict.fromkeys(content.get("secureJsonData") or {}, True)
    source.update(
        _data_source_content(content),
        uid=content.get("uid") or uid,
        version=source["version"] + 1,
    )
    return {"id": source["id"], "message": "Datasource updated", "datasource": source}


def _save_dashboard(state: GrafanaState, content: dict[str, Any], base: str) -> Any:
    board, folder = content.get("dashboard"), content.get("folderUid", "")
    if not isinstance(board, dict):
        raise RefusalError(400, "bad request data")
    uid, title = board.get("uid"), board.get("title")
    if not title:
        raise RefusalError(400, "Dashboard title cannot be empty", status="empty-name")
    if not (isinstance(uid, str) and _UID.fullmatch(uid)):
        raise RefusalError(400, "uid contains illegal characters")
    if folder and folder not in state.folders:
        raise RefusalError(400, "folder not found")
    if len(content.get("message", "")) > 500:
        raise RefusalError(400, "message too long, max 500 characters")
    found = state.dashboards.get(uid)
    if board.get("id") and not (found and found["dashboard"]["id"] == board["id"]):
        raise RefusalError(404, "Dashboard not found", status="not-found")
    if found and found["meta"]["provisioned"]:
        raise RefusalError(400, "Cannot save provisioned dashboard")
    if found and not content.get("overwrite"):
        if not board.get("id"):
            same = "A dashboard with the same uid already exists"
            raise RefusalError(412, same, status="name-exists")
        if board.get("version") != found["dashboard"]["version"]:
            changed = "The dashboard has been changed by someone else"
            raise RefusalError(412, changed, status="version-mismatch")
    version = found["dashboard"]["version"] + 1 if found else 1
    number = found["dashboard"]["id"] if found else len(state.dashboards) + 1
    path = f"{base}/d/{uid}/{title.lower()}"
    state.messages.setdefault(uid, []).append(content.get("message", ""))
    state.dashboards[uid] = {
        "dashboard": {**board, "id": number, "version": version},
        "meta": {"folderUid": folder, "url": path, "provisioned": False},
    }
    return {"id": number, "uid": uid, "url": path, "status": "success", "version": version}


def _find_annotations(state: GrafanaState, query: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    begin, end = (int(query.get(name, ["0"])[0]) for name in ("from", "to"))
    limit, tags = int(query.get("limit", ["100"])[0]), set(query.get("tags", []))
    found = [
        one
        for one in state.annotations
        if tags <= set(one["tags"]) and (not (begin and end) or begin <= one["time"] <= end)
    ]
    return sorted(found, key=lambda one: -int(one["time"]))[:limit]


def _add_annotation(state: GrafanaState, content: dict[str, Any]) -> Any:
    tags, moment = content.get("tags"), content.get("time")
    if not content.get("text"):
        raise RefusalError(400, "Failed to save annotation")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise RefusalError(400, "bad request data")
    if not isinstance(moment, int) or not 10**12 < moment < 10**13:
        raise RefusalError(400, "Failed to save annotation: time is in milliseconds")
    number = len(state.annotations) + 1
    state.annotations.append(
        {
            "id": number,
            "dashboardId": content.get("dashboardId") or 0,
            "time": moment,
            "timeEnd": content.get("timeEnd") or moment,
            "tags": tags,
            "text": content["text"],
        }
    )
    return {"message": "Annotation added", "id": number}
