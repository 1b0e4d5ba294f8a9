"""``/api/alerts/``: what a real Prometheus finds wrong."""

import json
from pathlib import Path

import pytest
from falcon.testing import TestClient

from master import times
from master.app import create_app
from master.reading.promql import PrometheusClient
from master.settings import Settings
from tests.conftest import USER_TOKEN, PrometheusServer, free_port, wait_for

_RULES = {
    "groups": [
        {
            "name": "always",
            "interval": "100ms",
            "rules": [
                {
                    "alert": "OfARank",
                    "expr": "vector(1)",
                    "labels": {"severity": "critical", "run_id": "3", "rank": "1", "pod": "w-1"},
                    "annotations": {"description": "Rank 1 hangs.", "runbook": "docs/a.md"},
                },
                {
                    "alert": "OfAll",
                    "expr": "vector(1)",
                    "labels": {"severity": "warning"},
                    "annotations": {"summary": "The disk is full."},
                },
                {"alert": "NotYet", "expr": "vector(1)", "for": "1h"},
                {"alert": "NeverTrue", "expr": "vector(1) > 2"},
            ],
        }
    ]
}


@pytest.fixture
def server(prometheus_binary: Path, tmp_path: Path) -> PrometheusServer:
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps(_RULES))
    (tmp_path / "prometheus.yml").write_text(json.dumps({"rule_files": [str(rules)]}))
    return PrometheusServer(prometheus_binary, tmp_path, free_port())


def test_those_that_fire(settings: Settings, server: PrometheusServer) -> None:
    prometheus = PrometheusClient(server.url)
    headers = {"Authorization": f"Bearer {USER_TOKEN}"}
    api = TestClient(create_app(settings, prometheus), headers=headers)
    assert api.simulate_get("/api/alerts/").status_code == 503, "Prometheus is down"
    server.start()
    try:
        wait_for(lambda: len(api.simulate_get("/api/alerts/").json) == 2)
        found = {alert["name"]: alert for alert in api.simulate_get("/api/alerts/").json}
    finally:
        server.kill()
        prometheus.close()
    for alert in found.values():
        assert times.parse(alert.pop("since")) > 0
    assert found == {
        "OfARank": {
            "name": "OfARank",
            "severity": "critical",
            "text": "Rank 1 hangs.",
            "runbook": "docs/a.md",
            "run_id": 3,
            "rank": 1,
            "pod": "w-1",
        },
        "OfAll": {
            "name": "OfAll",
            "severity": "warning",
            "text": "The disk is full.",
            "runbook": "",
            "run_id": None,
            "rank": None,
            "pod": None,
        },
    }
