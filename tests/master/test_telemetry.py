"""The master's own metrics: what they say, and that promtool finds nothing to complain about."""

import subprocess
import time
from pathlib import Path

import pytest
from falcon.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families

from master.models import KeptSample, run_owner
from master.recording import streams
from master.recording.delivery import Delivery
from master.recording.samples import Sample
from tests.master.making import line, make_run, post, record

Labels = dict[str, str]


def scrape(api: TestClient) -> dict[str, list[tuple[Labels, float]]]:
    text = api.simulate_get("/metrics").text
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(api: TestClient, name: str, **labels: str) -> float | None:
    """Return the value of the only series that has these labels."""
    found = [v for ls, v in scrape(api).get(name, []) if labels.items() <= ls.items()]
    assert len(found) <= 1
    return found[0] if found else None


def test_promtool_finds_nothing_to_complain_about(api: TestClient, promtool: Path) -> None:
    make_run(state="FINISHED", started_at=1.0, finished_at=2.0)
    make_run(goal={"metric": 'ü "\\\n', "value": 97.0, "lower_is_better": False})
    api.simulate_get("/api/runs")
    answer = api.simulate_get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=answer.content, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_an_empty_master_can_be_scraped(api: TestClient, promtool: Path) -> None:
    answer = api.simulate_get("/metrics")
    subprocess.run([promtool, "check", "metrics"], input=answer.content, check=True)
    assert value(api, "mlbench_spool_bytes") == 0
    assert value(api, "mlbench_kept_samples") == 0


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


def test_the_newest_hundred_runs_are_shown(api: TestClient) -> None:
    ids = [make_run(state="FINISHED").id for _ in range(103)]
    shown = {int(labels["run_id"]) for labels, _ in scrape(api)["mlbench_run_info"]}
    assert shown == set(ids[3:])


def test_what_waits_and_what_is_kept(api: TestClient, delivery: Delivery) -> None:
    run = make_run()
    stream = record(run, line(time.time(), a=1, text="kept"))
    post(run_owner(run.id), [Sample("b", "", 0, 1.0)])
    waiting = value(api, "mlbench_spool_bytes")
    assert waiting is not None
    assert waiting > stream.size
    delivery.deliver_waiting()
    assert value(api, "mlbench_spool_bytes") == 0
    assert value(api, "mlbench_kept_samples") == KeptSample.select().count() == 2


def test_logs_are_not_what_waits(api: TestClient) -> None:
    run = make_run()
    streams.append(streams.StreamKey(run_owner(run.id), 1, 0, "stdout"), 0, b"text")
    assert value(api, "mlbench_spool_bytes") == 0


def test_requests_are_counted_by_route_and_status(api: TestClient) -> None:
    for run_id in (1, 2):
        api.simulate_get(f"/api/runs/{run_id}")
    api.simulate_get("/api/runs", headers={"Authorization": ""})
    for path in ("/nothing", "/nowhere"):
        api.simulate_get(path)
    counted = {
        (ls["method"], ls["route"], ls["status"]): v
        for ls, v in scrape(api)["mlbench_http_requests_total"]
    }
    assert counted == {
        ("GET", "/api/runs/{run_id:int}", "404"): 2,
        ("GET", "/api/runs", "401"): 1,
        ("GET", "none", "404"): 2,
    }
    timed = {(ls["route"]): v for ls, v in scrape(api)["mlbench_http_request_seconds_count"]}
    assert timed["/api/runs/{run_id:int}"] == 2


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
def test_strange_methods_make_no_series_of_their_own(api: TestClient) -> None:
    for method in ("BREW", "X" * 20, "get"):
        assert api.simulate_request(method, "/api/runs").status_code in {400, 405}
    methods = {ls["method"] for ls, _ in scrape(api)["mlbench_http_requests_total"]}
    assert methods == {"other"}
