"""Calls about results: against the real master, and what they ask for."""

import pytest

from mlbench import ApiClient
from mlbench.client import ApiError, Run
from mlbench.records import Goal
from mlbench.results import Comparison, Result
from tests.mlbench.client.scripted import Reply, serving


def test_what_a_run_reached_comes_back(client: ApiClient, finished: Run) -> None:
    # The loss is 1 / (1 + step / 100), and 0.5 at step 100.
    answer = client.get_result(
        finished.id, goal="train_loss<=0.5", after_seconds=3600, price=0.5
    ).result()
    found = answer.value
    assert isinstance(found, Result)
    assert found.to_fields() == answer.json()
    assert (found.run_id, found.state, found.num_workers) == (finished.id, "FINISHED", 2)
    assert found.target == Goal("train_loss", 0.5, lower_is_better=True)
    assert found.time_to_accuracy is not None
    assert found.wall_seconds is not None
    assert 0 < found.time_to_accuracy.wall_seconds < found.wall_seconds
    assert found.last_value == found.best_value == pytest.approx(1 / 3)
    assert found.accuracy_after_time is not None
    assert found.accuracy_after_time.limit_seconds == 3600
    assert found.cost is not None
    assert found.cost.total == pytest.approx(found.cost.worker_seconds / 2)
    assert found.curve is not None
    assert len(found.curve.values) == 200


def test_runs_come_back_side_by_side(client: ApiClient, finished: Run) -> None:
    answer = client.compare([finished.id], goal="train_loss<=0.5").result()
    found = answer.value
    assert isinstance(found, Comparison)
    assert found.to_fields() == answer.json()
    assert (found.comparable, found.differences) == ("yes", ())
    [group] = found.groups
    assert (group.label, group.run_ids, group.reached) == ("2 workers", (finished.id,), 1)
    assert found.results == (client.get_result(finished.id, goal="train_loss<=0.5").result().value,)


def test_what_is_not_wished_is_not_asked_for() -> None:
    with serving(Reply(404, {"message": "none"})) as master, ApiClient(url=master.url) as client:
        for future in (
            client.get_result(7),
            client.get_result("7", goal="a b>=1", after_seconds=0.5, price=0),
            client.compare([7, "8"]),
            client.compare((7, 8, 9), goal="val_loss<=0.1", after_seconds=60, price=1e-5),
        ):
            with pytest.raises(ApiError, match="none"):
                future.result()
    assert sorted(asked.path for asked in master.asked) == [
        "/api/compare/?runs=7%2C8",
        "/api/compare/?runs=7%2C8%2C9&goal=val_loss%3C%3D0.1&after=60&price=1e-05",
        "/api/runs/7/result/",
        "/api/runs/7/result/?goal=a+b%3E%3D1&after=0.5&price=0",
    ]


def test_a_refusal_names_the_parameter(client: ApiClient, finished: Run) -> None:
    with pytest.raises(ApiError, match="goal: METRIC>=VALUE") as refused:
        client.get_result(finished.id, goal="train_loss").result()
    assert refused.value.status == 400
    with pytest.raises(ApiError, match=f"run {finished.id} is named twice"):
        client.compare([finished.id, finished.id]).result()
    with pytest.raises(ApiError, match="no run 999999") as missing:
        client.compare([999_999]).result()
    assert missing.value.status == 404
