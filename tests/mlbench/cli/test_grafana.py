"""``mlbench grafana`` installs Grafana and pushes dashboards, or reports why it cannot."""

import re

import pytest

from mlbench.contract import names
from mlbench.local import grafana_archive
from mlbench.local.assets import grafana_folder
from mlbench.local.grafana_server import find_grafana
from mlbench.local.home import StackConnection
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.archive_server import serving
from tests.support.grafana_server import ADMIN, PASSWORD, GrafanaServer

_PROMETHEUS = ("--prometheus-url", "http://prometheus:9090")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    grafana = (names.ENV_GRAFANA_URL, names.ENV_GRAFANA_TOKEN, names.ENV_GRAFANA_PROMETHEUS_URL)
    for name in (*grafana, names.ENV_SCRAPE_INTERVAL):
        monkeypatch.delenv(name, raising=False)


def test_everything_is_pushed_once(alone: Mlbench, server: GrafanaServer) -> None:
    boards = sorted(file.stem for file in (grafana_folder() / "dashboards").glob("*.json"))
    push = ("grafana", "push", "--url", server.url, "--token", ADMIN, *_PROMETHEUS)
    created = {"folder": "created", "data_source": "created"}
    first = alone(*push, "--json").json
    assert first == {**created, "dashboards": dict.fromkeys(boards, "created")}
    assert sorted(server.dashboards) == boards
    assert server.data_sources[0]["url"] == "http://prometheus:9090"
    server.log.clear()

    second = alone(*push)
    assert second.out.splitlines() == [
        "folder MLBench: unchanged",
        "data source MLBench Prometheus: unchanged",
        *(f"dashboard {uid}: unchanged" for uid in boards),
        "Everything was up to date; nothing was changed.",
    ]
    assert server.written() == []


def test_address_and_token_may_come_from_the_environment(
    alone: Mlbench, server: GrafanaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_GRAFANA_URL, server.url)
    monkeypatch.setenv(names.ENV_GRAFANA_TOKEN, PASSWORD)
    monkeypatch.setenv(names.ENV_GRAFANA_PROMETHEUS_URL, "http://from-there:9090")
    monkeypatch.setenv(names.ENV_SCRAPE_INTERVAL, "15s")
    assert alone("grafana", "push").code == 0
    [source] = server.data_sources
    assert source["url"] == "http://from-there:9090"
    assert source["jsonData"]["timeInterval"] == "15s"


def test_the_stacks_prometheus_is_the_default(alone: Mlbench, server: GrafanaServer) -> None:
    push = ("grafana", "push", "--url", server.url, "--token", ADMIN)
    done = alone(*push)
    assert done.code == 2
    assert re.search("--prometheus-url: required: no stack is running here", done.err)
    alone.home.write_connection(StackConnection("http://127.0.0.1:1", "t", "http://127.0.0.1:9091"))
    assert alone(*push).code == 0
    assert server.data_sources[0]["url"] == "http://127.0.0.1:9091"


def test_dashboards_that_are_read_only_are_reported(alone: Mlbench, server: GrafanaServer) -> None:
    meta = {"folderUid": "mlbench", "provisioned": True}
    board = {"uid": "mlbench-run", "title": "Of a file"}
    server.dashboards["mlbench-run"] = {"dashboard": board, "meta": meta}
    done = alone("grafana", "push", "--url", server.url, "--token", ADMIN, *_PROMETHEUS)
    assert done.code == 2
    assert "dashboard mlbench-run: provisioned\n" in done.out
    assert "dashboard mlbench-runs: created\n" in done.out
    assert done.err.startswith("mlbench: not pushed: mlbench-run: managed by Grafana's provis")


def test_grafana_is_installed_once(alone: Mlbench, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setattr(grafana_archive, "official_archive", lambda: server.archive)
        folder = str(alone.home.grafana_program)
        known = {"version": grafana_archive.VERSION, "folder": folder}
        assert alone("grafana", "install", "--json").json == {**known, "installed": True}
        assert alone("grafana", "install", "--json").json == {**known, "installed": False}
        server.breaks_off = True
        again = alone("grafana", "install").output
        assert again.startswith(f"Grafana {grafana_archive.VERSION} was already installed in ")
    assert find_grafana({"PATH": ""}, alone.home)


def test_a_background_installation_returns_at_once_and_logs(alone: Mlbench) -> None:
    with serving() as server:
        # The server's archive is not the pinned one.
        _fails_in_background(alone, server.url, "not the expected archive")
    assert not alone.home.grafana_program.exists()
    _fails_in_background(alone, server.url, "cannot be reached")


def _fails_in_background(alone: Mlbench, url: str, text: str) -> None:
    assert alone.process("grafana", "install", "--background", "--mirror", url).output == ""
    log = alone.home.logs / "grafana-install.log"
    wait_for(lambda: text in " ".join(log.read_text().split()), 60)
