"""The requests printed in MLBench's documentation get responses of the printed shape.

The tests correct these errors of the documentation:
- ``Host: example.com`` stands for the master's address.
- ``GET /api/metrics`` is printed twice. The second one stands for ``GET /api/metrics/{pod}``, whose
  response it shows.
- The posted sample names a run and a pod, but the printed response has only the pod.
- The sample and its response contain Python's ``False``, which is not valid JSON.
"""

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.stacks import run_to_end

ACCEPT = {"Accept": "application/json, text/javascript"}
PODS = {"local-mlbench-worker-0", "local-mlbench-worker-1"}
CPU = {"container_cpu_usage_seconds_total", "container_cpu_user_seconds_total"}
NAME = "Name of the run"

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_SAMPLE: Mapping[str, object] = {
    "name": "accuracy",
    "date": "2018-08-03T09:21:44.331823Z",
    "value": "0.7845",
    "cumulative": False,
    "metadata": "some additional data",
}


def as_printed(answer: httpx.Response, status: int) -> Any:
    """Check the status and headers of a response; return its JSON body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "text/javascript"
    assert "Accept" in answer.headers["Vary"].split(", ")
    return answer.json()


def assert_series(series: dict[str, Any]) -> None:
    """Check that each series has points with a date and a number as text."""
    for entries in series.values():
        assert entries
        for entry in entries:
            assert entry.keys() == {"date", "value"}
            assert _DATE.fullmatch(entry["date"])
            assert float(entry["value"]) >= 0
        dates = [entry["date"] for entry in entries]
        assert dates == sorted(dates)


def assert_run(run: dict[str, Any]) -> None:
    assert isinstance(run["id"], int)
    assert run["name"] == run["display_name"] == NAME
    assert re.fullmatch(r"name-of-the-run-[0-9a-f]{6}", run["resource_name"])
    assert _DATE.fullmatch(run["created_at"])
    assert run["state"] in {"INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED"}
    assert str(uuid.UUID(run["job_id"])) == run["job_id"]
    assert isinstance(run["job_metadata"], dict)


@pytest.fixture(scope="module")
def active_run(stack: Home) -> Iterator[dict[str, Any]]:
    """The response to a run submitted with only a name. The run is active and has pods."""
    connection = stack.read_connection()
    headers = ACCEPT | {"Authorization": f"Bearer {connection.token}"}
    with httpx.Client(base_url=connection.url, headers=headers, timeout=30) as http:
        ordered = as_printed(http.post("/api/runs/", content=json.dumps({"name": NAME})), 200)
        path = f"/api/runs/{ordered['id']}"

        def is_seen() -> bool:
            metrics = http.get("/api/metrics").json()
            has_series = metrics.keys() >= PODS and all(metrics[pod].keys() >= CPU for pod in PODS)
            return has_series and http.get(path).json()["state"] == "STARTED"

        wait_for(is_seen, what="the run has started, and Prometheus has series of its pods")
        yield ordered
        http.post(f"{path}/stop")
        with ApiClient.from_home(stack) as client:
            run_to_end(client, client.get_run(ordered["id"]).result().value)
        assert http.delete(path).status_code == 204


@pytest.mark.usefixtures("active_run")
def test_pods(http: httpx.Client) -> None:
    pods = as_printed(http.get("/api/pods", headers=ACCEPT), 200)
    assert {pod["name"] for pod in pods} == PODS
    for pod in pods:
        assert pod["phase"] == "Running"
        assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+", pod["ip"])
        # The labels are the text of a Python dictionary and include these two.
        assert re.fullmatch(r"\{('[^']+': '[^']*'(, )?)+\}", pod["labels"])
        assert "'app': 'mlbench', 'component': 'worker'" in pod["labels"]


@pytest.mark.usefixtures("active_run")
def test_metrics_of_all_pods(http: httpx.Client) -> None:
    metrics = as_printed(http.get("/api/metrics", headers=ACCEPT), 200)
    assert metrics.keys() == PODS
    for series in metrics.values():
        assert series.keys() >= CPU
        assert_series({name: series[name] for name in CPU})


@pytest.mark.usefixtures("active_run")
def test_metrics_of_one_pod(http: httpx.Client) -> None:
    path = "/api/metrics/local-mlbench-worker-1"
    series = as_printed(http.get(path, headers=ACCEPT), 200)
    assert series.keys() >= CPU
    assert_series({name: series[name] for name in CPU})
    # The documented parameters with their documented defaults.
    defaults = {"since": "1970-01-01T00:00:00.000000Z", "metric_type": "pod"}
    repeated = as_printed(http.get(path, params=defaults, headers=ACCEPT), 200)
    assert {name: repeated[name][: len(series[name])] for name in CPU} == {
        name: series[name] for name in CPU
    }


def test_a_sample_of_a_pod(http: httpx.Client) -> None:
    body = {"pod_name": "local-mlbench-worker-1", **_SAMPLE}
    # As printed, the request has no Content-Type.
    answer = http.post("/api/metrics", content=json.dumps(body), headers=ACCEPT)
    assert as_printed(answer, 201) == body
    samples = http.get("/api/metrics/local-mlbench-worker-1").json()["accuracy"]
    assert samples == [{key: _SAMPLE[key] for key in ("date", "value", "cumulative", "metadata")}]


def test_a_sample_of_a_run(http: httpx.Client, active_run: dict[str, Any]) -> None:
    body = {"run_id": active_run["id"], **_SAMPLE}
    answer = http.post("/api/metrics", content=json.dumps(body), headers=ACCEPT)
    assert as_printed(answer, 201) == body
    metrics = http.get(f"/api/metrics/{active_run['id']}", params={"metric_type": "run"}).json()
    assert [entry["value"] for entry in metrics["accuracy"]] == ["0.7845"]


def test_a_sample_of_a_run_and_a_pod(http: httpx.Client, active_run: dict[str, Any]) -> None:
    sample = {"pod_name": "local-mlbench-worker-1", **_SAMPLE, "name": "of both"}
    body = json.dumps(sample | {"run_id": active_run["id"]})
    assert as_printed(http.post("/api/metrics", content=body, headers=ACCEPT), 201) == sample
    of_run = http.get(f"/api/metrics/{active_run['id']}", params={"metric_type": "run"}).json()
    assert "of both" not in of_run
    assert "of both" in http.get("/api/metrics/local-mlbench-worker-1").json()


def test_pythons_false(http: httpx.Client, active_run: dict[str, Any]) -> None:
    body = json.dumps({"run_id": active_run["id"], **_SAMPLE}).replace("false", "False")
    answer = http.post("/api/metrics", content=body, headers=ACCEPT)
    assert as_printed(answer, 400)["message"].startswith("body: must be JSON")


def test_a_submitted_run(active_run: dict[str, Any]) -> None:
    assert_run(active_run)
    assert active_run["state"] == "INITIALIZED"


def test_all_runs(http: httpx.Client, active_run: dict[str, Any]) -> None:
    runs = as_printed(http.get("/api/runs", headers=ACCEPT), 200)
    [run] = [run for run in runs if run["id"] == active_run["id"]]
    assert_run(run)


def test_a_run(http: httpx.Client, active_run: dict[str, Any]) -> None:
    run = as_printed(http.get(f"/api/runs/{active_run['id']}", headers=ACCEPT), 200)
    assert_run(run)
    assert {key: run[key] for key in ("id", "created_at", "job_id")} == {
        key: active_run[key] for key in ("id", "created_at", "job_id")
    }


@pytest.mark.parametrize("body", [{"name": "b"}, {"name": "b", "num_workers": 2, "num_cpus": 1}])
def test_a_run_while_one_is_active(
    http: httpx.Client, active_run: dict[str, Any], body: dict[str, Any]
) -> None:
    answer = http.post("/api/runs", json=body, headers=ACCEPT)
    refused = as_printed(answer, 409)
    assert refused["status"] == 409
    assert f"run {active_run['id']} ({NAME}) is active" in refused["message"]
