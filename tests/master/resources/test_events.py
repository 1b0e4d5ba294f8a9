"""``/api/runs/{id}/events``: what happened to a run."""

import pytest
from falcon.testing import TestClient

from tests.master.making import make_ranks, make_run


def test_events(api: TestClient) -> None:
    run = make_run(created_at=0.5)
    make_ranks(run, assigned_at=1.0, exit_code=3, exited_at=2.25)
    make_ranks(make_run())
    answer = api.simulate_get(f"/api/runs/{run.id}/events/")
    assert answer.status_code == 200
    assert [event["kind"] for event in answer.json] == ["created", "ready", "exited", "exited"]
    assert answer.json[3] == {
        "time": "1970-01-01T00:00:02.250000Z",
        "kind": "exited",
        "attempt": 1,
        "rank": 1,
        "text": "Rank 1 on w-1 exited with code 3",
    }


@pytest.mark.parametrize("run_id", ["0", "999", "9" * 30])
def test_an_unknown_run(api: TestClient, run_id: str) -> None:
    answer = api.simulate_get(f"/api/runs/{run_id}/events")
    assert answer.status_code == 404
    assert answer.json["message"] == f"run_id: there is no run {run_id}"
