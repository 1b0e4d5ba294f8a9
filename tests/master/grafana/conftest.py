"""What these tests share: a small Grafana, its client, and dashboards to push."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.grafana.client import Grafana
from tests.master.grafana.rules import GrafanaState
from tests.master.grafana.server import ADMIN, GrafanaServer


@pytest.fixture
def server() -> Iterator[GrafanaServer]:
    """An empty Grafana."""
    server = GrafanaServer(GrafanaState())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def state(server: GrafanaServer) -> GrafanaState:
    return server.state


@pytest.fixture
def grafana(server: GrafanaServer) -> Iterator[Grafana]:
    """The server as an administrator's token sees it."""
    client = Grafana(server.url, ADMIN, timeout_seconds=5)
    yield client
    client.close()


@pytest.fixture
def dashboards(tmp_path: Path) -> Path:
    """A folder with two dashboards."""
    folder = tmp_path / "dashboards"
    folder.mkdir()
    for uid in ("mlbench-run", "mlbench-runs"):
        board = {
            "uid": uid,
            "title": uid.title(),
            "panels": [{"id": 1, "type": "text", "title": "Panel"}],
            "schemaVersion": 39,
        }
        (folder / f"{uid}.json").write_text(json.dumps(board))
    return folder
