"""Brings MLBench's folder, Prometheus data source and dashboards to a Grafana.

Used by the controller and by ``mlbench grafana push``. Needs grafana-api (the extra ``master``).
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import requests
from grafana_api.grafana_api import GrafanaException
from grafana_api.grafana_face import GrafanaFace

from mlbench.contract.distribution import own_version
from mlbench.contract.errors import MLBenchError
from mlbench.contract.login import split_login
from mlbench.local.assets import too_old_for_dashboards

FOLDER_UID = "mlbench"
FOLDER_TITLE = "MLBench"
DATA_SOURCE_UID = "mlbench-prometheus"
DATA_SOURCE_NAME = "MLBench Prometheus"

Outcome = Literal["created", "updated", "unchanged", "provisioned"]
"""Provisioned: it differs, but comes from Grafana's own files, and was left as it is."""

# Set by Grafana: the database id, and how often the dashboard was saved.
_SET_BY_GRAFANA = frozenset({"id", "version"})

_ADVICE = {
    401: "it does not know the token: give one of a service account, or user:password",
    403: "the token lacks a right: it takes the role Admin",
    404: "it does not have what was asked for",
    409: "something else there has that name or uid",
    412: "something else there has that name or uid, or it was changed at the same time",
}
_PROVISIONED = "it comes from Grafana's provisioning files: update it there, or take it out of them"


class GrafanaError(MLBenchError):
    """Grafana cannot be reached, or refuses a request."""


@dataclass(frozen=True)
class Pushed:
    """Outcome of a push."""

    folder: Outcome
    data_source: Outcome
    dashboards: dict[str, Outcome]
    """By uid."""


class Grafana:
    """A client of one Grafana, for a ``with`` statement."""

    def __init__(
        self,
        url: str,
        token: str,
        count: Callable[[str], None] = lambda outcome: None,
        timeout_seconds: float = 5.0,
    ) -> None:
        """Create the client for Grafana's first page; nothing is sent yet.

        ``token`` is that of a service account, or ``user:password``. ``count`` is called with the
        outcome of each request: "done" or "failed".
        """
        self.url = url.rstrip("/")
        self._count = count
        self._timeout = timeout_seconds
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
            raise GrafanaError(
                "--url: must be like http://HOST:3000 or https://HOST/grafana, without a password"
            )
        if not token.strip():
            raise GrafanaError(f"--token: empty for Grafana at {url}. Set $GRAFANA_TOKEN.")
        user, colon, password = token.strip().partition(":")
        path = parts.path.strip("/")
        self._face = GrafanaFace(
            (user.encode(), password.encode()) if colon else user,
            host=parts.netloc,
            url_path_prefix=f"{path}/" if path else "",
            protocol=parts.scheme,
            timeout=timeout_seconds,
        )
        # requests turns a redirected POST into a GET.
        self._face.api.s.max_redirects = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._face.api.s.close()

    def push(self, dashboards: Path, prometheus_url: str, scrape_interval: str) -> Pushed:
        """Bring folder, data source and dashboards up to date.

        Only what differs is written, so a second push changes nothing and adds no version. After a
        GrafanaError, what came before the refused request is done.

        Args:
            dashboards: a folder of dashboards as JSON.
            prometheus_url: how Grafana reaches Prometheus, with user and password if needed.
            scrape_interval: of that Prometheus, such as ``2s``; Grafana derives the shortest span
                of a rate from it.
        """
        boards = [json.loads(file.read_text()) for file in sorted(dashboards.glob("*.json"))]
        if not boards:
            raise GrafanaError(f"no dashboards in {dashboards}")
        health = self._find("its health", lambda: self._face.api.GET("/health"))
        if health is None or "database" not in health:
            raise GrafanaError(_no_grafana(self.url))
        if fault := too_old_for_dashboards(health):
            raise GrafanaError(f"nothing is pushed to {self.url}: {fault}")
        return Pushed(
            folder=self._push_folder(),
            data_source=self._push_data_source(_data_source(prometheus_url, scrape_interval)),
            dashboards={board["uid"]: self._push_dashboard(board) for board in boards},
        )

    def _push_folder(self) -> Outcome:
        """Create the folder where it is missing. A user may have renamed it."""
        if self._find("the folder", lambda: self._face.folder.get_folder(FOLDER_UID)):
            return "unchanged"
        what = f"the folder {FOLDER_TITLE}"
        self._ask(what, lambda: self._face.folder.create_folder(FOLDER_TITLE, FOLDER_UID))
        return "created"

    def _push_data_source(self, wanted: Mapping[str, Any]) -> Outcome:
        """Create or update the data source; keep a user's additions, such as a certificate."""
        api, what = self._face.api, f"the data source {DATA_SOURCE_NAME}"
        uid = self._data_source_uid()
        path = f"/datasources/uid/{uid}"
        existing = self._find(what, lambda: api.GET(path)) if uid else None
        if existing is None:
            self._ask(what, lambda: self._face.datasource.create_datasource(wanted))
            return "created"
        if holds(existing, _readable(wanted)):
            return "unchanged"
        settings = {**(existing.get("jsonData") or {}), **wanted["jsonData"]}
        content = {**existing, **wanted, "jsonData": settings}
        self._ask(what, lambda: api.PUT(path, json=content))
        return "updated"

    def _data_source_uid(self) -> str | None:
        """Return the uid of MLBench's data source, found by its uid or else by its name."""
        listed = self._ask("the data sources", self._face.datasource.list_datasources)
        uids = [source.get("uid") for source in self._objects(listed)]
        if DATA_SOURCE_UID in uids:
            return DATA_SOURCE_UID
        names = [source.get("name") for source in listed]
        return uids[names.index(DATA_SOURCE_NAME)] if DATA_SOURCE_NAME in names else None

    def _push_dashboard(self, board: Mapping[str, Any]) -> Outcome:
        fields = {key: value for key, value in board.items() if key not in _SET_BY_GRAFANA}
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        uid, message = fields["uid"], f"MLBench {own_version()}, {digest[:16]}"
        what = f"the dashboard {uid}"
        existing = self._find(what, lambda: self._face.dashboard.get_dashboard(uid))
        if existing is not None:
            # Newer versions of Grafana rewrite what they store, but not the version's message.
            if holds(existing, {"meta": {"folderUid": FOLDER_UID}}) and (
                holds(existing.get("dashboard"), fields) or self._last_message(uid) == message
            ):
                return "unchanged"
            if holds(existing, {"meta": {"provisioned": True}}):
                return "provisioned"
        content = {
            "dashboard": {**fields, "id": None},
            "folderUid": FOLDER_UID,
            "message": message,
            "overwrite": True,
        }
        self._ask(what, lambda: self._face.dashboard.update_dashboard(content))
        return "created" if existing is None else "updated"

    def _last_message(self, uid: str) -> str:
        """Return the message of a dashboard's newest version; empty without a version."""
        path = f"/dashboards/uid/{uid}/versions?limit=1"
        answer = self._ask("its versions", lambda: self._face.api.GET(path), may_be_missing=True)
        # Newer versions of Grafana put the list into an object.
        listed = answer.get("versions") if isinstance(answer, dict) else answer
        return next((str(entry.get("message")) for entry in self._objects(listed or [])), "")

    def _find(self, what: str, call: Callable[[], Any]) -> dict[str, Any] | None:
        """Return an object, or None where Grafana answers 404."""
        answer = self._ask(what, call, may_be_missing=True)
        return None if answer is None else self._objects([answer])[0]

    def _ask(self, what: str, call: Callable[[], Any], *, may_be_missing: bool = False) -> Any:
        try:
            answer = call()
        except GrafanaException as error:
            if may_be_missing and error.status_code == HTTPStatus.NOT_FOUND:
                self._count("done")
                return None
            self._count("failed")
            raise GrafanaError(_refusal(self.url, what, error)) from error
        # grafana-api raises TypeError for an error page that contains "message" but is not JSON.
        except (requests.RequestException, ValueError, TypeError) as error:
            self._count("failed")
            raise GrafanaError(_unreachable(self.url, error, self._timeout)) from error
        self._count("done")
        return answer

    def _objects(self, answer: Any) -> list[dict[str, Any]]:
        if isinstance(answer, list) and all(isinstance(entry, dict) for entry in answer):
            return answer
        raise GrafanaError(_no_grafana(self.url))


def holds(found: Any, wanted: Any) -> bool:
    """Return whether a JSON value is as wanted; its objects may have more keys."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and holds(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)


def _data_source(prometheus_url: str, scrape_interval: str) -> dict[str, Any]:
    # Everyone who may look at dashboards may read the address, so the login is kept apart.
    url, login = split_login(prometheus_url)
    data_source: dict[str, Any] = {
        "uid": DATA_SOURCE_UID,
        "name": DATA_SOURCE_NAME,
        "type": "prometheus",
        "access": "proxy",
        "url": url,
        "jsonData": {"httpMethod": "POST", "timeInterval": scrape_interval},
    }
    if login is not None:
        data_source |= {"basicAuth": True, "basicAuthUser": login.user}
        data_source["secureJsonData"] = {"basicAuthPassword": login.password}
    return data_source


def _readable(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a data source as Grafana shows it: of secrets, only that they are set."""
    shown = dict(source)
    if secrets := shown.pop("secureJsonData", None):
        shown["secureJsonFields"] = dict.fromkeys(secrets, True)
    return shown


def _refusal(url: str, what: str, error: GrafanaException) -> str:
    said = str(error.message)
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"Grafana at {url} does not work now: {said}"
    provisioned = "provisioned" in said or "read-only" in said
    advice = _PROVISIONED if provisioned else _ADVICE.get(error.status_code)
    explained = f"{advice} ({said})" if advice else said
    return f"Grafana at {url} refuses {what}: {explained}"


def _unreachable(url: str, error: Exception, timeout_seconds: float) -> str:
    match error:
        case requests.TooManyRedirects(response=response) if response is not None:
            return f"{url} leads to {response.headers.get('Location')}: give that address"
        case requests.Timeout():
            return f"Grafana at {url} does not answer within {timeout_seconds:g} s"
        case requests.exceptions.SSLError():
            name_it = "name the file of its authority in $REQUESTS_CA_BUNDLE"
            return f"the certificate of {url} is not trusted: {name_it}"
        case requests.ConnectionError():
            return f"Grafana at {url} cannot be reached"
        case _:
            return _no_grafana(url)


def _no_grafana(url: str) -> str:
    return f"there is no Grafana at {url}: it answers as Grafana does not"
