"""What /metrics says of the newest runs."""

import time
from typing import Any

import pytest
from falcon.testing import TestClient

from master.recording.delivery import Delivery
from tests.master.making import line, make_ranks, make_run, record
from tests.master.telemetry.scraping import scrape, value


@pytest.mark.both_databases
def test_a_run_is_described(api: TestClient) -> None:
    run = make_run(
        num_workers=3,
        created_at=10.5,
        started_at=11.0,
        goal={"metric": "val", "value": 97.0, "lower_is_better": False},
    )
    run_id = str(run.id)
    [(labels, one)] = scrape(api)["mlbench_run_info"]
    assert one == 1
    assert labels == {
        "run_id": run_id,
        "name": "made",
        "benchmark": "steps",
        "backend": "gloo",
        "workers": "3",
    }
    assert value(api, "mlbench_run_created_timestamp_seconds", run_id=run_id) == 10.5
    assert value(api, "mlbench_run_started_timestamp_seconds", run_id=run_id) == 11.0
    assert value(api, "mlbench_run_finished_timestamp_seconds", run_id=run_id) is None
    assert value(api, "mlbench_run_goal", run_id=run_id, metric="val") == 97.0


@pytest.mark.parametrize("state", ["INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED"])
def test_a_run_is_in_one_state(api: TestClient, state: str) -> None:
    run = make_run(state=state)
    states = {ls["state"]: v for ls, v in scrape(api)["mlbench_run_state"]}
    assert len(states) == 5
    assert {name for name, is_it in states.items() if is_it} == {state}
    assert value(api, "mlbench_run_state", run_id=str(run.id), state=state) == 1


@pytest.mark.both_databases
def test_the_newest_hundred_runs_are_shown(api: TestClient) -> None:
    ids = [make_run(state="FINISHED").id for _ in range(103)]
    shown = {int(labels["run_id"]) for labels, _ in scrape(api)["mlbench_run_info"]}
    assert shown == set(ids[3:])


def test_a_goal_that_was_reached_has_its_time(api: TestClient) -> None:
    run_id = str(make_run(goal_reached_at=20.5, goal_train_seconds=4.25).id)
    assert value(api, "mlbench_run_goal_reached_timestamp_seconds", run_id=run_id) == 20.5
    assert value(api, "mlbench_run_time_to_goal_seconds", run_id=run_id) == 4.25
    assert value(api, "mlbench_run_workers", run_id=run_id) == 2
    assert value(api, "mlbench_run_attempts", run_id=run_id) == 1


def test_a_goal_that_was_not_reached_has_none(api: TestClient) -> None:
    make_run()
    assert "mlbench_run_goal_reached_timestamp_seconds" not in scrape(api)
    assert "mlbench_run_time_to_goal_seconds" not in scrape(api)


@pytest.mark.both_databases
def test_the_lost_ranks_of_the_latest_attempt_are_counted(api: TestClient) -> None:
    run = make_run(attempt=1)
    make_ranks(run, lost="gone")
    run.attempt = 2
    run.save()
    one, _ = make_ranks(run)
    assert value(api, "mlbench_run_lost_ranks", run_id=str(run.id)) == 0
    one.lost = "gone too"
    one.save()
    assert value(api, "mlbench_run_lost_ranks", run_id=str(run.id)) == 1


def samples(api: TestClient, run_id: int) -> dict[str, float]:
    found = scrape(api)["mlbench_run_samples"]
    return {labels["place"]: v for labels, v in found if labels["run_id"] == str(run_id)}


def test_the_samples_of_an_active_run_are_those_delivered_so_far(
    api: TestClient, delivery: Delivery
) -> None:
    run = make_run()
    nothing = {"recorded": 0, "in_prometheus": 0, "kept": 0}
    stream = record(run, line(time.time(), a=1, b=2, text="kept"))
    assert samples(api, run.id) == nothing
    assert value(api, "mlbench_run_waiting_bytes", run_id=str(run.id)) == stream.size
    delivery.deliver_waiting()
    assert samples(api, run.id) == {"recorded": 3, "in_prometheus": 2, "kept": 1}
    assert value(api, "mlbench_run_waiting_bytes", run_id=str(run.id)) == 0


@pytest.mark.parametrize(
    ("delivery_counts", "shown"),
    [
        ({"recorded": 5, "in_prometheus": 3, "kept": 1},) * 2,
        (None, {}),
    ],
)
def test_the_samples_of_an_ended_run_are_those_counted(
    api: TestClient, delivery_counts: Any, shown: dict[str, float]
) -> None:
    run = make_run(state="STOPPED", delivery=delivery_counts)
    make_run()
    assert samples(api, run.id) == shown
    assert value(api, "mlbench_run_waiting_bytes", run_id=str(run.id)) is None
