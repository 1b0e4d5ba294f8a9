"""``GET /api/benchmarks/``: the official tasks, and what may be asked of them."""

import pytest
from falcon.testing import TestClient

from master.benchmarks import BENCHMARKS


def test_all_are_listed(api: TestClient) -> None:
    answer = api.simulate_get("/api/benchmarks/")
    assert answer.status_code == 200
    assert [one["name"] for one in answer.json] == list(BENCHMARKS)
    assert all(one["description"] for one in answer.json)
    rules = {one["name"]: one["rules"] for one in answer.json}
    assert rules["digits"]["goal"] == [97.0, 90.0]
    assert rules["steps"] == {}
    goals = {one["name"]: (one["goal"], one["light_goal"]) for one in answer.json}
    accuracy = {"metric": "val_global_Prec@1", "lower_is_better": False}
    assert goals["digits"] == (accuracy | {"value": 97.0}, accuracy | {"value": 90.0})
    assert goals["ridge-regression"] == goals["steps"] == (None, None)


@pytest.mark.parametrize(
    ("said", "field"), [("has_light_target", {"light_target": True}), ("takes_seed", {"seed": 1})]
)
def test_orders_are_taken_as_it_says(api: TestClient, said: str, field: dict[str, object]) -> None:
    for benchmark in api.simulate_get("/api/benchmarks/").json:
        order = {"name": "a", "benchmark": benchmark["name"], "queue": True, **field}
        answer = api.simulate_post("/api/runs/", json=order)
        assert (answer.status_code == 200) == benchmark[said], answer.text
