"""What the fields of several request bodies have in common."""

import pytest
from falcon.testing import TestClient

from master.fields import refuse_truth_value
from master.models import Run
from tests.conftest import AGENT_TOKEN


@pytest.mark.parametrize("truth", [True, False])
def test_a_truth_value_is_no_number(truth: bool) -> None:
    with pytest.raises(ValueError, match="a number, not a truth value"):
        refuse_truth_value(truth)


@pytest.mark.parametrize("value", [0, 1, 0.5, "1", None])
def test_everything_else_goes_on(value: object) -> None:
    assert refuse_truth_value(value) is value


@pytest.mark.parametrize("field", ["num_workers", "num_cpus", "max_bandwidth", "seed"])
def test_in_an_order(api: TestClient, field: str) -> None:
    answer = api.simulate_post("/api/runs/", json={"name": "a", field: True})
    assert answer.status_code == 400
    assert answer.json["message"].startswith(f"{field}: a number, not a truth value")


def test_in_a_sample(api: TestClient, run: Run) -> None:
    sample = {"run_id": True, "name": "a", "value": 1, "date": "2026-03-01"}
    answer = api.simulate_post("/api/metrics/", json=sample)
    assert answer.status_code == 400
    assert answer.json["message"].startswith("run_id: a number, not a truth value")


@pytest.mark.parametrize("field", ["run_id", "attempt", "rank", "exit_code", "exited_at"])
def test_in_a_report(api: TestClient, field: str) -> None:
    answer = api.simulate_post(
        "/api/workers/w-0/poll",
        json={"state": "idle", "ip": "", field: True},
        headers={"Authorization": f"Bearer {AGENT_TOKEN}"},
    )
    assert answer.status_code == 400
    assert answer.json["message"].startswith(f"{field}: a number, not a truth value")
