"""Pushing to Grafana: everything at first, then only differences, and helpful errors.

If $GRAFANA_URL names a real Grafana (token in $GRAFANA_TOKEN, by default admin:admin), the last
test also pushes to it.
"""

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract import names
from mlbench.local.assets import grafana_folder
from mlbench.local.grafana_api import Grafana, GrafanaError, Pushed
from tests.conftest import free_port
from tests.support.grafana_server import (
    ADMIN,
    EDITOR,
    PASSWORD,
    VIEWER,
    Fault,
    GrafanaServer,
    serve_grafana,
)
from tests.support.scripted import Reply, serving

_PROMETHEUS = "http://prometheus:9090"
_BOARDS = ("mlbench-run", "mlbench-runs")
_UNCHANGED = Pushed("unchanged", "unchanged", dict.fromkeys(_BOARDS, "unchanged"))


@pytest.fixture
def dashboards(tmp_path: Path) -> Path:
    """A folder with two dashboards."""
    for uid in _BOARDS:
        panels = [{"id": 1, "type": "text", "title": "Panel"}]
        board = {"uid": uid, "title": uid, "panels": panels, "schemaVersion": 39}
        (tmp_path / f"{uid}.json").write_text(json.dumps(board))
    return tmp_path


def push(
    url: str, dashboards: Path, token: str = ADMIN, prometheus_url: str = _PROMETHEUS, **more: Any
) -> Pushed:
    with Grafana(url, token, **{"timeout_seconds": 5.0, **more}) as grafana:
        return grafana.push(dashboards, prometheus_url, "2s")


@pytest.fixture
def pushed(server: GrafanaServer, dashboards: Path) -> GrafanaServer:
    """A Grafana after one push. Its recorded requests are cleared."""
    done = push(server.url, dashboards)
    assert done == Pushed("created", "created", dict.fromkeys(_BOARDS, "created"))
    server.log.clear()
    return server


def change_board(dashboards: Path) -> None:
    file = dashboards / "mlbench-run.json"
    file.write_text(file.read_text().replace("Panel", "Another title"))


def test_the_first_push_creates_everything(pushed: GrafanaServer, tmp_path: Path) -> None:
    assert pushed.folders["mlbench"]["title"] == "MLBench"
    [source] = pushed.data_sources
    assert (source["uid"], source["name"]) == ("mlbench-prometheus", "MLBench Prometheus")
    assert (source["type"], source["access"], source["url"]) == ("prometheus", "proxy", _PROMETHEUS)
    assert source["jsonData"] == {"httpMethod": "POST", "timeInterval": "2s"}
    assert not source["isDefault"], "the default data source must not change"
    assert pushed.dashboards.keys() == set(_BOARDS)
    for board in pushed.dashboards.values():
        assert board["meta"]["folderUid"] == "mlbench"
        assert board["dashboard"]["panels"][0]["title"] == "Panel"
    (tmp_path / "empty").mkdir()
    with pytest.raises(GrafanaError, match="no dashboards in"):
        push(pushed.url, tmp_path / "empty")


def test_the_second_push_changes_nothing(pushed: GrafanaServer, dashboards: Path) -> None:
    # IDs and versions in a file are ignored, because Grafana assigns them.
    file = dashboards / "mlbench-run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"id": 77, "version": 13}))
    pushed.folders["mlbench"]["title"] = "Renamed by a user"
    assert push(pushed.url, dashboards) == _UNCHANGED
    assert pushed.written() == []
    # Only a changed dashboard gets a new version.
    change_board(dashboards)
    done = push(pushed.url, dashboards)
    assert done.dashboards == {"mlbench-run": "updated", "mlbench-runs": "unchanged"}
    changed = pushed.dashboards["mlbench-run"]["dashboard"]
    assert (changed["version"], changed["panels"][0]["title"]) == (2, "Another title")


def test_a_changed_or_moved_dashboard_is_restored(pushed: GrafanaServer, dashboards: Path) -> None:
    pushed.dashboards["mlbench-run"]["dashboard"]["panels"].append({"id": 2})
    pushed.messages["mlbench-run"].append("a panel of mine")
    pushed.dashboards["mlbench-runs"]["meta"]["folderUid"] = ""
    assert set(push(pushed.url, dashboards).dashboards.values()) == {"updated"}
    assert len(pushed.dashboards["mlbench-run"]["dashboard"]["panels"]) == 1
    assert pushed.dashboards["mlbench-runs"]["meta"]["folderUid"] == "mlbench"
    assert push(pushed.url, dashboards) == _UNCHANGED


@pytest.mark.parametrize("plainly", [True, False])
def test_a_dashboard_rewritten_by_grafana_is_unchanged(
    pushed: GrafanaServer, dashboards: Path, plainly: bool
) -> None:
    pushed.lists_versions_plainly = plainly
    for board in pushed.dashboards.values():
        board["dashboard"] |= {"schemaVersion": 42, "panels": [{"id": 1}]}
    assert push(pushed.url, dashboards) == _UNCHANGED
    # Grafana stores a manual change as a version with another message or none.
    pushed.messages["mlbench-run"].append("")
    assert push(pushed.url, dashboards).dashboards["mlbench-run"] == "updated"


@pytest.mark.parametrize(
    ("uid", "name"), [("mlbench-prometheus", "Renamed"), ("made-by-hand", "MLBench Prometheus")]
)
def test_a_manually_changed_data_source_is_restored_not_duplicated(
    pushed: GrafanaServer, dashboards: Path, uid: str, name: str
) -> None:
    source = pushed.data_sources[0]
    source |= {"uid": uid, "name": name, "url": "http://elsewhere", "basicAuthUser": "someone"}
    source["jsonData"] |= {"timeInterval": "1m", "tlsSkipVerify": True}
    assert push(pushed.url, dashboards).data_source == "updated"
    assert pushed.data_sources == [source]
    assert (source["uid"], source["name"]) == ("mlbench-prometheus", "MLBench Prometheus")
    assert source["url"] == _PROMETHEUS
    kept = {"httpMethod": "POST", "timeInterval": "2s", "tlsSkipVerify": True}
    assert source["jsonData"] == kept, "additions by the user must be kept"
    assert source["basicAuthUser"] == "someone"
    assert push(pushed.url, dashboards) == _UNCHANGED


def test_the_prometheus_password_is_encrypted(pushed: GrafanaServer, dashboards: Path) -> None:
    with_login = "http://mlbench:secret@prometheus:9090/path"
    assert push(pushed.url, dashboards, prometheus_url=with_login).data_source == "updated"
    [source] = pushed.data_sources
    assert source["url"] == "http://prometheus:9090/path"
    assert (source["basicAuth"], source["basicAuthUser"]) == (True, "mlbench")
    assert source["secureJsonFields"] == {"basicAuthPassword": True}
    assert push(pushed.url, dashboards, prometheus_url=with_login) == _UNCHANGED


def test_provisioned_dashboards_are_not_changed(pushed: GrafanaServer, dashboards: Path) -> None:
    pushed.dashboards["mlbench-run"]["meta"]["provisioned"] = True
    pushed.data_sources[0]["readOnly"] = True
    assert push(pushed.url, dashboards) == _UNCHANGED
    change_board(dashboards)
    assert push(pushed.url, dashboards).dashboards["mlbench-run"] == "provisioned"
    assert pushed.written() == []
    refusal = "the data source MLBench Prometheus: it comes from Grafana's provis"
    with pytest.raises(GrafanaError, match=refusal):
        push(pushed.url, dashboards, prometheus_url="http://other:9090")


def test_a_conflicting_data_source_is_reported(pushed: GrafanaServer, dashboards: Path) -> None:
    [ours] = pushed.data_sources
    pushed.data_sources.append({**ours, "uid": "another"})
    ours["name"] = "Renamed"
    with pytest.raises(GrafanaError, match="something else there has that name or uid"):
        push(pushed.url, dashboards)


@pytest.mark.parametrize("end", ["", "/", "/?orgId=1"])
def test_grafana_may_have_a_path(dashboards: Path, end: str) -> None:
    with serve_grafana(path="/tools/grafana") as server:
        push(f"{server.url}{end}", dashboards)
        assert server.dashboards
        for wrong in (server.url.removesuffix("/tools/grafana"), f"{server.url}/login"):
            with pytest.raises(GrafanaError, match=f"no Grafana at {wrong}"):
                push(wrong, dashboards)


@pytest.mark.parametrize("url", ["", "grafana:3000", "ftp://grafana", "http://", "http://a:b@host"])
def test_a_malformed_address_is_reported_without_its_password(url: str) -> None:
    with pytest.raises(GrafanaError, match="--url: must be like http://HOST:3000") as error:
        Grafana(url, ADMIN)
    assert "a:b" not in str(error.value)


@pytest.mark.parametrize("token", ["glsa_wrong", "admin:wrong"])
def test_a_wrong_token_is_not_shown(server: GrafanaServer, dashboards: Path, token: str) -> None:
    with pytest.raises(GrafanaError, match="does not know the token") as error:
        push(server.url, dashboards, token)
    assert token not in str(error.value)
    assert base64.b64encode(token.encode()).decode() not in str(error.value)


def test_a_missing_permission_or_token_is_reported(server: GrafanaServer, dashboards: Path) -> None:
    with pytest.raises(GrafanaError, match="refuses the folder MLBench: the token lacks") as error:
        push(server.url, dashboards, VIEWER)
    assert "Permissions needed: folders:create" in str(error.value)
    with pytest.raises(GrafanaError, match="refuses the data sources: the token lacks a right"):
        push(server.url, dashboards, EDITOR)
    assert push(server.url, dashboards, f"{PASSWORD}\n").data_source == "created"
    with pytest.raises(GrafanaError, match=r"Set \$GRAFANA_TOKEN"):
        push(server.url, dashboards, "\n")


@pytest.mark.parametrize("version", ["9.5.21", "8.0.0-beta1"])
def test_an_old_grafana_is_refused_before_anything_is_pushed(
    server: GrafanaServer, dashboards: Path, version: str
) -> None:
    server.version = version
    needed = f"MLBench needs Grafana 10 or newer; this is Grafana {version}"
    with pytest.raises(GrafanaError, match=f"nothing is pushed to {server.url}: {needed}"):
        push(server.url, dashboards)
    assert [path for _, path in server.log] == ["/health"]


@pytest.mark.parametrize("version", ["", "main-4711", "12.2.0-security-01"])
def test_a_grafana_with_a_newer_or_hidden_version_is_accepted(
    server: GrafanaServer, dashboards: Path, version: str
) -> None:
    server.version = version
    assert push(server.url, dashboards).folder == "created"


def test_an_unreachable_grafana_is_reported(dashboards: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(GrafanaError, match=f"Grafana at {url} cannot be reached"):
        push(url, dashboards)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang", "does not answer within 0.2 s"),
        *((page, "no Grafana at") for page in ("garbage", "error page", "list")),
        ("500", "does not work now: Server Error 500: database is locked"),
    ],
)
def test_a_failing_grafana_is_reported(
    server: GrafanaServer, dashboards: Path, fault: Fault, said: str
) -> None:
    server.fault = fault
    began = time.monotonic()
    with pytest.raises(GrafanaError, match=said):
        push(server.url, dashboards, timeout_seconds=0.2)
    assert time.monotonic() - began < 5, "the push must not wait for the server"


def test_a_redirect_is_reported_and_not_followed(dashboards: Path) -> None:
    moved = Reply(301, b"", (("Location", "https://secure/"),))
    refusal = pytest.raises(GrafanaError, match="leads to https://secure/: give that address")
    with serving(moved) as server, refusal:
        push(server.url, dashboards)


@pytest.mark.skipif(not os.environ.get(names.ENV_GRAFANA_URL), reason="$GRAFANA_URL is not set")
def test_a_second_push_to_a_real_grafana_changes_nothing() -> None:
    url = os.environ[names.ENV_GRAFANA_URL]
    token = os.environ.get(names.ENV_GRAFANA_TOKEN) or "admin:admin"
    dashboards = grafana_folder() / "dashboards"
    push(url, dashboards, token, timeout_seconds=20)
    again = push(url, dashboards, token, timeout_seconds=20)
    assert {again.folder, again.data_source, *again.dashboards.values()} == {"unchanged"}
