"""Pushing: everything the first time, what differs later, and nothing where nothing differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from master.grafana.client import Grafana, GrafanaError, RefusedError
from master.grafana.push import Pushed, holds, push
from tests.master.grafana.rules import GrafanaState
from tests.master.grafana.server import EDITOR, VIEWER, GrafanaServer

_PROMETHEUS = "http://prometheus:9090"
_UNCHANGED = Pushed(
    "unchanged", "unchanged", dict.fromkeys(("mlbench-run", "mlbench-runs"), "unchanged")
)


def push_all(grafana: Grafana, dashboards: Path, prometheus_url: str = _PROMETHEUS) -> Pushed:
    return push(grafana, dashboards, prometheus_url, "2s")


@pytest.fixture
def pushed(grafana: Grafana, state: GrafanaState, dashboards: Path) -> Pushed:
    """What the first push did; what it asked is forgotten."""
    done = push_all(grafana, dashboards)
    state.log.clear()
    return done


def test_the_first_push_brings_everything(pushed: Pushed, state: GrafanaState) -> None:
    assert pushed == Pushed(
        "created", "created", {"mlbench-run": "created", "mlbench-runs": "created"}
    )
    assert state.folders["mlbench"]["title"] == "MLBench"
    [source] = state.data_sources
    assert source["uid"] == "mlbench-prometheus"
    assert source["name"] == "MLBench Prometheus"
    assert (source["type"], source["access"], source["url"]) == ("prometheus", "proxy", _PROMETHEUS)
    assert source["jsonData"] == {"httpMethod": "POST", "timeInterval": "2s"}
    assert not source["isDefault"], "another may be"
    assert state.dashboards.keys() == {"mlbench-run", "mlbench-runs"}
    for board in state.dashboards.values():
        assert board["meta"]["folderUid"] == "mlbench"
        assert board["dashboard"]["panels"][0]["title"] == "Panel"


def test_the_second_push_changes_nothing(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    assert push_all(grafana, dashboards) == _UNCHANGED
    assert state.written() == []
    assert [board["dashboard"]["version"] for board in state.dashboards.values()] == [1, 1]


def test_a_changed_dashboard_gets_a_new_version_and_the_others_none(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    file = dashboards / "mlbench-run.json"
    file.write_text(file.read_text().replace("Panel", "Another title"))
    assert push_all(grafana, dashboards).dashboards == {
        "mlbench-run": "updated",
        "mlbench-runs": "unchanged",
    }
    changed = state.dashboards["mlbench-run"]["dashboard"]
    assert (changed["version"], changed["panels"][0]["title"]) == (2, "Another title")
    assert state.dashboards["mlbench-runs"]["dashboard"]["version"] == 1


def test_a_dashboard_that_was_changed_or_moved_by_hand_is_set_right(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    state.dashboards["mlbench-run"]["dashboard"]["panels"].append({"id": 2})
    state.messages["mlbench-run"].append("a panel of mine")
    state.dashboards["mlbench-runs"]["meta"]["folderUid"] = ""
    done = push_all(grafana, dashboards)
    assert set(done.dashboards.values()) == {"updated"}
    assert len(state.dashboards["mlbench-run"]["dashboard"]["panels"]) == 1
    assert state.dashboards["mlbench-runs"]["meta"]["folderUid"] == "mlbench"
    assert push_all(grafana, dashboards) == _UNCHANGED


@pytest.mark.parametrize("is_old", [True, False])
def test_what_grafana_rewrites_when_it_stores_is_no_difference(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path, is_old: bool
) -> None:
    state.is_old = is_old
    for board in state.dashboards.values():
        board["dashboard"]["schemaVersion"] = 42
        del board["dashboard"]["panels"][0]["type"]
    assert push_all(grafana, dashboards) == _UNCHANGED
    # A change by hand is a version of its own, with another message or none.
    state.messages["mlbench-run"].append("")
    assert push_all(grafana, dashboards).dashboards["mlbench-run"] == "updated"


def test_ids_and_versions_of_a_file_are_grafanas_own(
    grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    file = dashboards / "mlbench-run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"id": 77, "version": 13}))
    push_all(grafana, dashboards)
    assert state.dashboards["mlbench-run"]["dashboard"]["version"] == 1
    assert push_all(grafana, dashboards) == _UNCHANGED


def test_a_data_source_that_was_changed_by_hand_is_set_right(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    [source] = state.data_sources
    source["url"] = "http://elsewhere"
    source["jsonData"]["timeInterval"] = "1m"
    source["jsonData"]["tlsSkipVerify"] = True
    source["basicAuthUser"] = "someone"
    assert push_all(grafana, dashboards).data_source == "updated"
    assert source["url"] == _PROMETHEUS
    kept = {"httpMethod": "POST", "timeInterval": "2s", "tlsSkipVerify": True}
    assert source["jsonData"] == kept, "what the user added stays"
    assert source["basicAuthUser"] == "someone"
    assert push_all(grafana, dashboards) == _UNCHANGED


@pytest.mark.parametrize(
    ("uid", "name"), [("mlbench-prometheus", "Renamed"), ("made-by-hand", "MLBench Prometheus")]
)
def test_a_data_source_of_that_uid_or_name_is_updated_not_doubled(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path, uid: str, name: str
) -> None:
    state.data_sources[0].update(uid=uid, name=name)
    assert push_all(grafana, dashboards).data_source == "updated"
    [source] = state.data_sources
    assert (source["uid"], source["name"]) == ("mlbench-prometheus", "MLBench Prometheus")


def test_another_prometheus_is_taken_over(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    assert push_all(grafana, dashboards, "http://other:9090").data_source == "updated"
    assert state.data_sources[0]["url"] == "http://other:9090"


def test_a_login_for_prometheus_is_kept_where_nobody_reads_it(
    grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    with_login = "http://mlbench:secret@prometheus:9090/path"
    assert push_all(grafana, dashboards, with_login).data_source == "created"
    [source] = state.data_sources
    assert source["url"] == "http://prometheus:9090/path"
    assert (source["basicAuth"], source["basicAuthUser"]) == (True, "mlbench")
    assert source["secureJsonFields"] == {"basicAuthPassword": True}
    assert push_all(grafana, dashboards, with_login) == _UNCHANGED


def test_a_login_comes_to_a_data_source_that_has_none(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    with_login = "http://mlbench:secret@prometheus:9090"
    assert push_all(grafana, dashboards, with_login).data_source == "updated"
    assert state.data_sources[0]["secureJsonFields"] == {"basicAuthPassword": True}
    assert push_all(grafana, dashboards, with_login) == _UNCHANGED


def test_a_folder_that_a_user_renamed_keeps_its_name(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    state.folders["mlbench"]["title"] = "Ours"
    assert push_all(grafana, dashboards) == _UNCHANGED
    assert state.folders["mlbench"]["title"] == "Ours"


# --- What Grafana refuses. ---


@pytest.mark.parametrize(
    ("token", "what", "permission"),
    [
        (VIEWER, "the folder MLBench", "folders:create"),
        (EDITOR, "the data sources", "datasources:read"),
    ],
)
def test_a_token_that_lacks_a_right_is_told_which(
    server: GrafanaServer, dashboards: Path, token: str, what: str, permission: str
) -> None:
    grafana = Grafana(server.url, token)
    with pytest.raises(RefusedError) as error:
        push_all(grafana, dashboards)
    grafana.close()
    assert f"refuses {what}: the token lacks a right" in str(error.value)
    assert f"Permissions needed: {permission}" in str(error.value)


def test_a_provisioned_dashboard_is_left_as_it_is(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    state.dashboards["mlbench-run"]["meta"]["provisioned"] = True
    assert push_all(grafana, dashboards) == _UNCHANGED, "it is as it should be"
    file = dashboards / "mlbench-run.json"
    file.write_text(file.read_text().replace("Panel", "Another title"))
    assert push_all(grafana, dashboards).dashboards == {
        "mlbench-run": "provisioned",
        "mlbench-runs": "unchanged",
    }
    assert state.written() == []


def test_one_that_is_provisioned_meanwhile_is_told(
    pushed: Pushed, grafana: Grafana, state: GrafanaState
) -> None:
    state.dashboards["mlbench-run"]["meta"]["provisioned"] = True
    with pytest.raises(
        RefusedError, match="refuses the dashboard mlbench-run: it comes from Grafana's provis"
    ):
        grafana.save_dashboard({"uid": "mlbench-run", "title": "Mine"}, "mlbench", "")


def test_a_provisioned_data_source_that_differs_is_told(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    state.data_sources[0]["readOnly"] = True
    assert push_all(grafana, dashboards) == _UNCHANGED
    with pytest.raises(
        RefusedError, match="the data source MLBench Prometheus: it comes from Grafana's provis"
    ):
        push_all(grafana, dashboards, "http://other:9090")


def test_a_name_that_another_data_source_took_is_told(
    pushed: Pushed, grafana: Grafana, state: GrafanaState, dashboards: Path
) -> None:
    [ours] = state.data_sources
    ours["name"] = "Renamed"
    state.data_sources.append({**ours, "uid": "another", "name": "MLBench Prometheus"})
    with pytest.raises(RefusedError, match="something else there has that name or uid"):
        push_all(grafana, dashboards)


def test_without_dashboards_nothing_is_pushed(
    grafana: Grafana, state: GrafanaState, tmp_path: Path
) -> None:
    with pytest.raises(GrafanaError, match="there are no dashboards in"):
        push_all(grafana, tmp_path)
    assert state.log == []


# --- What counts as the same. ---


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ({"a": 1, "more": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "more": 2}, False),
        ({"a": {"b": [1, {"c": 2, "d": 3}]}}, {"a": {"b": [1, {"c": 2}]}}, True),
        ([1, 2, 3], [1, 2], False),
        ([2, 1], [1, 2], False),
        (None, {}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        (1.0, 1, True),
        ("1", 1, False),
    ],
)
def test_what_grafana_added_is_no_difference(found: Any, wanted: Any, same: bool) -> None:
    assert holds(found, wanted) is same
