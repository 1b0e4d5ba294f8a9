"""Brings MLBench's folder, Prometheus data source and dashboards to a Grafana.

Used by the controller and by ``mlbench grafana push``. Needs grafana-api (the extra ``master``).
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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

        ``token`` is the token of a service account, or ``user:password``. ``count`` is called with
        the outcome of each request: "done" or "failed".
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
        folder: Outcome = "unchanged"  # also if a user has renamed it
        if not self._find("the folder", lambda: self._face.folder.get_folder(FOLDER_UID)):
            create = partial(self._face.folder.create_folder, FOLDER_TITLE, FOLDER_UID)
            self._ask(f"the folder {FOLDER_TITLE}", create)
            folder = "created"
        return Pushed(
            folder,
            self._push_data_source(prometheus_url, scrape_interval),
            {board["uid"]: self._push_dashboard(board) for board in boards},
        )

    def _push_data_source(self, prometheus_url: str, scrape_interval: str) -> Outcome:
        """Create or update the data source; keep a user's additions, such as a certificate."""
        # Everyone who may look at dashboards may read the address, so the login is kept apart.
        url, login = split_login(prometheus_url)
        source: dict[str, Any] = {
            "uid": DATA_SOURCE_UID,
            "name": DATA_SOURCE_NAME,
            "type": "prometheus",
            "access": "proxy",
            "url": url,
            "jsonData": {"httpMethod": "POST", "timeInterval": scrape_interval},
        }
        secrets = {"basicAuthPassword": login.password} if login else {}
        if login:
            source |= {"basicAuth": True, "basicAuthUser": login.user}
        # Grafana shows which secrets are set, but not their values.
        visible = source | ({"secureJsonFields": dict.fromkeys(secrets, True)} if secrets else {})
        source |= {"secureJsonData": secrets} if secrets else {}
        api, subject = self._face.api, f"the data source {DATA_SOURCE_NAME}"
        listed = self._ask("the data sources", self._face.datasource.list_datasources)
        uids = {entry.get("name"): entry.get("uid") for entry in self._objects(listed)}
        uid = DATA_SOURCE_UID if DATA_SOURCE_UID in uids.values() else uids.get(DATA_SOURCE_NAME)
        path = f"/datasources/uid/{uid}"
        existing = self._find(subject, lambda: api.GET(path)) if uid else None
        if existing is None:
            self._ask(subject, lambda: self._face.datasource.create_datasource(source))
            return "created"
        if holds(existing, visible):
            return "unchanged"
        settings = {**(existing.get("jsonData") or {}), **source["jsonData"]}
        content = {**existing, **source, "jsonData": settings}
        self._ask(subject, lambda: api.PUT(path, json=content))
        return "updated"

    def _push_dashboard(self, board: Mapping[str, Any]) -> Outcome:
        fields = {key: value for key, value in board.items() if key not in _SET_BY_GRAFANA}
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
        uid, message = fields["uid"], f"MLBench {own_version()}, {digest[:16]}"
        subject = f"the dashboard {uid}"
        existing = self._find(subject, lambda: self._face.dashboard.get_dashboard(uid))
        if existing is not None:
            in_folder = holds(existing, {"meta": {"folderUid": FOLDER_UID}})
            is_current = in_folder and holds(existing.get("dashboard"), fields)
            if in_folder and not is_current:
                # Newer versions of Grafana rewrite what they store, but not the message of the
                # newest version. They put the list of versions into an object.
                get_versions = partial(
                    self._face.api.GET, f"/dashboards/uid/{uid}/versions?limit=1"
                )
                answer = self._ask("its versions", get_versions, may_be_missing=True)
                listed = answer.get("versions") if isinstance(answer, dict) else answer
                messages = [entry.get("message") for entry in self._objects(listed or [])]
                is_current = messages[:1] == [message]
            if is_current:
                return "unchanged"
            if holds(existing, {"meta": {"provisioned": True}}):
                return "provisioned"
        content = {
            "dashboard": {**fields, "id": None},
            "folderUid": FOLDER_UID,
            "message": message,
            "overwrite": True,
        }
        self._ask(subject, lambda: self._face.dashboard.update_dashboard(content))
        return "created" if existing is None else "updated"

    def _find(self, subject: str, call: Callable[[], Any]) -> dict[str, Any] | None:
        """Return an object; None if Grafana responds 404."""
        answer = self._ask(subject, call, may_be_missing=True)
        return None if answer is None else self._objects([answer])[0]

    def _ask(self, subject: str, call: Callable[[], Any], *, may_be_missing: bool = False) -> Any:
        try:
            answer = call()
        except GrafanaException as error:
            if may_be_missing and error.status_code == HTTPStatus.NOT_FOUND:
                self._count("done")
                return None
            self._count("failed")
            text = str(error.message)
            if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise GrafanaError(f"Grafana at {self.url} does not work now: {text}") from error
            provisioned = "provisioned" in text or "read-only" in text
            advice = _PROVISIONED if provisioned else _ADVICE.get(error.status_code)
            explained = f"{advice} ({text})" if advice else text
            raise GrafanaError(f"Grafana at {self.url} refuses {subject}: {explained}") from error
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


def holds(value: Any, expected: Any) -> bool:
    """Return whether a JSON value is as expected; its objects may have more keys."""
    if isinstance(expected, dict) and isinstance(value, dict):
        return all(key in value and holds(value[key], part) for key, part in expected.items())
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(holds, value, expected))
    return bool(value == expected)


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
    return f"no Grafana at {url}: the response is not Grafana's"
