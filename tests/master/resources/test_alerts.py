"""``/api/alerts/``: firing alerts of a real Prometheus, and alerts of a run."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from falcon.testing import TestClient
from peewee import Database

from mlbench_master import timestamps
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.settings import Settings
from tests.conftest import PrometheusServer, call_as_user, free_port, wait_for
from tests.support.rows import TimeSeries, make_run, send

_RULES = [
    {
        "alert": "OfARank",
        "expr": "vector(1)",
        "labels": {"severity": "critical", "run_id": "3", "rank": "1", "pod": "w-1"},
        "annotations": {"description": "Rank 1 hangs.", "runbook": "docs/a.md"},
    },
    {
        **{"alert": "OfAll", "expr": "vector(1)", "labels": {"severity": "warning"}},
        "annotations": {"summary": "The disk is full."},
    },
    {"alert": "NotYet", "expr": "vector(1)", "for": "1h"},
    {"alert": "NeverTrue", "expr": "vector(1) > 2"},
]


@pytest.fixture
def server(prometheus_binary: Path, tmp_path: Path) -> Iterator[PrometheusServer]:
    """A Prometheus with rules, not started yet."""
    rules = tmp_path / "rules.yml"
    group = {"name": "always", "interval": "100ms", "rules": _RULES}
    rules.write_text(json.dumps({"groups": [group]}))
    (tmp_path / "prometheus.yml").write_text(json.dumps({"rule_files": [str(rules)]}))
    server = PrometheusServer(prometheus_binary, tmp_path, free_port())
    yield server
    if server.process is not None:
        server.kill()


@pytest.fixture
def api(settings: Settings, server: PrometheusServer, database: Database) -> Iterator[TestClient]:
    with closing(PrometheusClient(server.url)) as prometheus:
        yield call_as_user(settings, prometheus)


def test_firing_alerts_are_listed(api: TestClient, server: PrometheusServer) -> None:
    assert api.simulate_get("/api/alerts/").status_code == 503, "Prometheus is down"
    server.start()
    wait_for(lambda: len(api.simulate_get("/api/alerts/").json) == 2)
    alerts = {alert["name"]: alert for alert in api.simulate_get("/api/alerts/").json}
    for alert in alerts.values():
        assert timestamps.parse(alert.pop("since")) > 0
    rank = {"run_id": 3, "rank": 1, "pod": "w-1", "text": "Rank 1 hangs.", "runbook": "docs/a.md"}
    stack = dict.fromkeys(["run_id", "rank", "pod"]) | {"text": "The disk is full.", "runbook": ""}
    assert alerts == {
        "OfARank": {"name": "OfARank", "severity": "critical", **rank},
        "OfAll": {"name": "OfAll", "severity": "warning", **stack},
    }


def test_alerts_of_a_run_are_listed(api: TestClient, server: PrometheusServer) -> None:
    began = time.time() - 600
    other, run = make_run(started_at=began), make_run(started_at=began, finished_at=began + 300)
    make_run(started_at=None)
    server.start()
    writer = RemoteWriter(server.url)
    # The alert fired from 100 s to 160 s after the start, and again from 290 s to 310 s.
    seconds = [*range(100, 161, 5), *range(290, 311, 5)]
    for run_id in (run.id, other.id):
        labels = {"__name__": "ALERTS", "alertname": "Slow", "alertstate": "firing"}
        labels |= {"severity": "warning", "run_id": str(run_id), "rank": "1", "pod": "w-1"}
        points = [(round((began + second) * 1000), 1.0) for second in seconds]
        send(writer, TimeSeries(labels, points))
    writer.close()
    alerts = api.simulate_get(f"/api/runs/{run.id}/alerts/").json
    shown = [(alert["name"], alert["severity"], alert["rank"]) for alert in alerts]
    assert shown == [("Slow", "warning", 1)] * 2
    keys = ("began_at", "ended_at")
    ends = [timestamps.parse(alert[key]) / 1e6 - began for alert in alerts for key in keys]
    assert ends == pytest.approx([100, 160, 290, 310], abs=6)
