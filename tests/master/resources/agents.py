"""Polls of agents, sent through the API."""

import json
from typing import Any

from falcon.testing import Result, TestClient

from mlbench_master.database.models import Run
from tests.conftest import as_pod


def poll(
    api: TestClient, report: object, pod: str = "w-0", headers: dict[str, str] | None = None
) -> Result:
    """Send a report, by default with the token of the pod."""
    text = report if isinstance(report, str) else json.dumps(report)
    path = f"/api/workers/{pod}/poll"
    return api.simulate_post(path, body=text, headers=headers or as_pod(pod))


def poll_running(api: TestClient, run: Run, rank: int) -> Any:
    """Poll with a running rank of attempt 1, and return the reply."""
    report = {"state": "running", "ip": "", "run_id": run.id, "attempt": 1, "rank": rank}
    return poll(api, report, f"w-{rank}").json
