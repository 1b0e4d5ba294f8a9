"""The same against a real Grafana: that of $GRAFANA_URL, with $GRAFANA_TOKEN (admin:admin).

It gets MLBench's folder, data source and dashboards, and one annotation of a run that never was.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.grafana.annotations import RunEvent, write_missing
from master.grafana.client import Grafana, RefusedError
from master.grafana.push import Pushed, push
from mlbench import names
from mlbench.assets import grafana_folder

_URL = os.environ.get(names.ENV_GRAFANA_URL, "")
_TOKEN = os.environ.get(names.ENV_GRAFANA_TOKEN) or "admin:admin"

pytestmark = pytest.mark.skipif(not _URL, reason="no real Grafana: $GRAFANA_URL is not set")


@pytest.fixture
def real() -> Iterator[Grafana]:
    client = Grafana(_URL, _TOKEN, timeout_seconds=20)
    yield client
    client.close()


def push_ours(grafana: Grafana, dashboards: Path) -> Pushed:
    return push(grafana, dashboards, "http://127.0.0.1:9090", "2s")


def versions(grafana: Grafana) -> list[int]:
    """Return how often each dashboard was saved."""
    uids = sorted(file.stem for file in (grafana_folder() / "dashboards").glob("*.json"))
    boards = [grafana.find_dashboard(uid) for uid in uids]
    return [board["dashboard"]["version"] for board in boards if board]


def test_a_second_push_changes_nothing(real: Grafana) -> None:
    dashboards = grafana_folder() / "dashboards"
    push_ours(real, dashboards)
    before = versions(real)
    again = push_ours(real, dashboards)
    assert (again.folder, again.data_source) == ("unchanged", "unchanged")
    assert set(again.dashboards.values()) == {"unchanged"}
    assert versions(real) == before
    assert len(before) == len(again.dashboards) > 0


def test_an_annotation_is_written_once(real: Grafana) -> None:
    event = RunEvent(time.time_ns() // 1000, "started", time.time_ns() // 10**6, "<b>a test</b>")
    assert write_missing(real, [event]) == 1
    assert write_missing(real, [event]) == 0


def test_a_wrong_token_is_refused() -> None:
    wrong = Grafana(_URL, "glsa_wrong")
    with pytest.raises(RefusedError, match="does not know the token"):
        wrong.find_folder("mlbench")
    wrong.close()
