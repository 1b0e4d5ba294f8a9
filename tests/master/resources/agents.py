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


def ship(
    api: TestClient,
    run_id: int,
    data: bytes,
    stream: str = "metrics",
    rank: int = 0,
    headers: dict[str, str] | None = None,
    **params: Any,
) -> Result:
    """Send a piece of a stream of attempt 1, by default with the token of pod w-0 or w-1."""
    path = f"/api/runs/{run_id}/ranks/{rank}/{stream}"
    params = {"attempt": 1, "offset": 0} | params
    headers = headers or as_pod(f"w-{rank if rank in (0, 1) else 0}")
    return api.simulate_put(path, params=params, body=data, headers=headers)


def poll_running(api: TestClient, run: Run, rank: int) -> Any:
    """Poll with a running rank of attempt 1, and return the reply."""
    report = {"state": "running", "ip": "", "run_id": run.id, "attempt": 1, "rank": rank}
    return poll(api, report, f"w-{rank}").json
