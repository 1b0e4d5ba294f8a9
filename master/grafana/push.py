"""Pushing to Grafana: the folder, the Prometheus data source and the dashboards.

Only what differs is written, so a second push changes nothing, and adds no version to a dashboard.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from master.grafana.client import Grafana, GrafanaError
from mlbench.login import split_login

FOLDER_UID = "mlbench"
FOLDER_TITLE = "MLBench"
DATA_SOURCE_UID = "mlbench-prometheus"
DATA_SOURCE_NAME = "MLBench Prometheus"

Outcome = Literal["created", "updated", "unchanged", "provisioned"]
"""Provisioned: it differs, but comes from Grafana's own files, and was left as it is."""

# Grafana's own: the row of its database, and how often the dashboard was saved.
_GRAFANAS_OWN = frozenset({"id", "version"})


@dataclass(frozen=True)
class Pushed:
    """What a push did."""

    folder: Outcome
    data_source: Outcome
    dashboards: dict[str, Outcome]
    """By uid."""


def push(grafana: Grafana, dashboards: Path, prometheus_url: str, scrape_interval: str) -> Pushed:
    """Bring everything to Grafana.

    Args:
        grafana: where to.
        dashboards: a folder of dashboards as JSON.
        prometheus_url: how Grafana reaches Prometheus; with user and password, if it asks for them.
        scrape_interval: of that Prometheus, such as ``2s``: the shortest span of a rate follows it.

    Raises:
        UnavailableError: nothing there answers as Grafana does.
        RefusedError: Grafana does not allow it; what came before it is done.
        GrafanaError: there are no dashboards.
    """
    boards = _read(dashboards)
    grafana.check()
    return Pushed(
        folder=_push_folder(grafana),
        data_source=_push_data_source(grafana, _data_source(prometheus_url, scrape_interval)),
        dashboards={board["uid"]: _push_dashboard(grafana, board) for board in boards},
    )


def holds(found: Any, wanted: Any) -> bool:
    """Return whether a JSON value is as wanted; Grafana may have added keys to its objects."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and holds(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(map(holds, found, wanted))
    return bool(found == wanted)


def _read(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise GrafanaError(f"there are no dashboards in {folder}")
    return [json.loads(file.read_text()) for file in files]


def _push_folder(grafana: Grafana) -> Outcome:
    """Have the folder. Its title may be another: a user has renamed it."""
    if grafana.find_folder(FOLDER_UID) is not None:
        return "unchanged"
    grafana.create_folder(FOLDER_UID, FOLDER_TITLE)
    return "created"


def _data_source(prometheus_url: str, scrape_interval: str) -> dict[str, Any]:
    # Whoever looks at dashboards may read the address.
    url, login = split_login(prometheus_url)
    wanted: dict[str, Any] = {
        "uid": DATA_SOURCE_UID,
        "name": DATA_SOURCE_NAME,
        "type": "prometheus",
        "access": "proxy",
        "url": url,
        "jsonData": {"httpMethod": "POST", "timeInterval": scrape_interval},
    }
    if login is None:
        return wanted
    return wanted | {
        "basicAuth": True,
        "basicAuthUser": login.user,
        "secureJsonData": {"basicAuthPassword": login.password},
    }


def _push_data_source(grafana: Grafana, wanted: Mapping[str, Any]) -> Outcome:
    """Have the data source. What a user has added to it, such as a certificate, stays."""
    uid = _find_uid(grafana.data_sources())
    found = uid and grafana.find_data_source(uid)
    if not (uid and found):
        grafana.create_data_source(wanted)
        return "created"
    if holds(found, _readable(wanted)):
        return "unchanged"
    settings = {**(found.get("jsonData") or {}), **wanted["jsonData"]}
    grafana.update_data_source(uid, {**found, **wanted, "jsonData": settings})
    return "updated"


def _readable(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a data source as Grafana tells it: of its secrets, only which there are."""
    told = dict(source)
    if secrets := told.pop("secureJsonData", None):
        told["secureJsonFields"] = dict.fromkeys(secrets, True)
    return told


def _find_uid(sources: list[dict[str, Any]]) -> str | None:
    """Return the uid of the data source that is ours by its uid, or else by its name."""
    by_uid = {source.get("uid"): source for source in sources}
    by_name = {source.get("name"): source for source in sources}
    ours = by_uid.get(DATA_SOURCE_UID) or by_name.get(DATA_SOURCE_NAME) or {}
    return ours.get("uid")


def _push_dashboard(grafana: Grafana, board: Mapping[str, Any]) -> Outcome:
    wanted = {key: value for key, value in board.items() if key not in _GRAFANAS_OWN}
    message = _message(wanted)
    found = grafana.find_dashboard(wanted["uid"])
    if found is None:
        grafana.save_dashboard(wanted, FOLDER_UID, message)
        return "created"
    if holds(found, {"meta": {"folderUid": FOLDER_UID}}) and (
        # Newer versions of Grafana rewrite what they store, but not what was said of it.
        holds(found.get("dashboard"), wanted) or grafana.last_message(wanted["uid"]) == message
    ):
        return "unchanged"
    if holds(found, {"meta": {"provisioned": True}}):
        return "provisioned"
    grafana.save_dashboard(wanted, FOLDER_UID, message)
    return "updated"


def _message(board: Mapping[str, Any]) -> str:
    """Return what is said of a version: it tells the dashboard from every other."""
    digest = hashlib.sha256(json.dumps(board, sort_keys=True).encode()).hexdigest()
    return f"MLBench {version('mlbench')}, {digest[:16]}"
