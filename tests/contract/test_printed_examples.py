"""The requests that MLBench's documentation prints get answers of the shape that it prints.

Where the documentation contradicts itself or what a run is here, the tests say what holds:
- it names ``Host: example.com``, which stands for the address at which the master is;
- it prints ``GET /api/metrics`` twice; the second stands for ``GET /api/metrics/{pod}``, whose
  answer it shows;
- its posted sample names a run and a pod, and the printed answer has the pod alone;
- that sample, and the answer to it, has Python's ``False``, which is not JSON.
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
    """Check status and headers of an answer; return what it says."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "text/javascript"
    assert "Accept" in answer.headers["Vary"].split(", ")
    return answer.json()


def assert_series(series: dict[str, Any]) -> None:
    """Check that there are points for each name, as dates and texts that are numbers."""
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
def going(stack: Home) -> Iterator[dict[str, Any]]:
    """The answer to the order of a run by its name alone; the run is going, and pods are seen."""
    connection = stack.read_connection()
    headers = ACCEPT | {"Authorization": f"Bearer {connection.token}"}
    with httpx.Client(base_url=connection.url, headers=headers, timeout=30) as http:
        ordered = as_printed(http.post("/api/runs/", content=json.dumps({"name": NAME})), 200)
        path = f"/api/runs/{ordered['id']}"

        def is_seen() -> bool:
            metrics = http.get("/api/metrics").json()
            seen = metrics.keys() >= PODS and all(metrics[pod].keys() >= CPU for pod in PODS)
            return seen and http.get(path).json()["state"] == "STARTED"

        wait_for(is_seen, what="the run has started, and Prometheus has series of its pods")
        yield ordered
        http.post(f"{path}/stop")
        with ApiClient.from_home(stack) as client:
            run_to_end(client, client.get_run(ordered["id"]).result().value)
        assert http.delete(path).status_code == 204


@pytest.mark.usefixtures("going")
def test_pods(http: httpx.Client) -> None:
    pods = as_printed(http.get("/api/pods", headers=ACCEPT), 200)
    assert {pod["name"] for pod in pods} == PODS
    for pod in pods:
        assert pod["phase"] == "Running"
        assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+", pod["ip"])
        # A text that Python reads as a dictionary, of these among others.
        assert re.fullmatch(r"\{('[^']+': '[^']*'(, )?)+\}", pod["labels"])
        assert "'app': 'mlbench', 'component': 'worker'" in pod["labels"]


@pytest.mark.usefixtures("going")
def test_metrics_of_all_pods(http: httpx.Client) -> None:
    metrics = as_printed(http.get("/api/metrics", headers=ACCEPT), 200)
    assert metrics.keys() == PODS
    for series in metrics.values():
        assert series.keys() >= CPU
        assert_series({name: series[name] for name in CPU})


@pytest.mark.usefixtures("going")
def test_metrics_of_one_pod(http: httpx.Client) -> None:
    path = "/api/metrics/local-mlbench-worker-1"
    series = as_printed(http.get(path, headers=ACCEPT), 200)
    assert series.keys() >= CPU
    assert_series({name: series[name] for name in CPU})
    # The documented parameters, with the documented defaults.
    defaults = {"since": "1970-01-01T00:00:00.000000Z", "metric_type": "pod"}
    again = as_printed(http.get(path, params=defaults, headers=ACCEPT), 200)
    assert {name: again[name][: len(series[name])] for name in CPU} == {
        name: series[name] for name in CPU
    }


def test_a_sample_of_a_pod(http: httpx.Client) -> None:
    body = {"pod_name": "local-mlbench-worker-1", **_SAMPLE}
    # As printed, it does not say what type its body has.
    answer = http.post("/api/metrics", content=json.dumps(body), headers=ACCEPT)
    assert as_printed(answer, 201) == body
    found = http.get("/api/metrics/local-mlbench-worker-1").json()["accuracy"]
    assert found == [{key: _SAMPLE[key] for key in ("date", "value", "cumulative", "metadata")}]


def test_a_sample_of_a_run(http: httpx.Client, going: dict[str, Any]) -> None:
    body = {"run_id": going["id"], **_SAMPLE}
    answer = http.post("/api/metrics", content=json.dumps(body), headers=ACCEPT)
    assert as_printed(answer, 201) == body
    found = http.get(f"/api/metrics/{going['id']}", params={"metric_type": "run"}).json()
    assert [entry["value"] for entry in found["accuracy"]] == ["0.7845"]


def test_a_sample_of_a_run_and_a_pod(http: httpx.Client, going: dict[str, Any]) -> None:
    sample = {"pod_name": "local-mlbench-worker-1", **_SAMPLE, "name": "of both"}
    body = json.dumps(sample | {"run_id": going["id"]})
    assert as_printed(http.post("/api/metrics", content=body, headers=ACCEPT), 201) == sample
    of_run = http.get(f"/api/metrics/{going['id']}", params={"metric_type": "run"}).json()
    assert "of both" not in of_run
    assert "of both" in http.get("/api/metrics/local-mlbench-worker-1").json()


def test_pythons_false(http: httpx.Client, going: dict[str, Any]) -> None:
    body = json.dumps({"run_id": going["id"], **_SAMPLE}).replace("false", "False")
    answer = http.post("/api/metrics", content=body, headers=ACCEPT)
    assert as_printed(answer, 400)["message"].startswith("body: must be JSON")


def test_an_ordered_run(going: dict[str, Any]) -> None:
    assert_run(going)
    assert going["state"] == "INITIALIZED"


def test_all_runs(http: httpx.Client, going: dict[str, Any]) -> None:
    runs = as_printed(http.get("/api/runs", headers=ACCEPT), 200)
    [run] = [run for run in runs if run["id"] == going["id"]]
    assert_run(run)


def test_a_run(http: httpx.Client, going: dict[str, Any]) -> None:
    run = as_printed(http.get(f"/api/runs/{going['id']}", headers=ACCEPT), 200)
    assert_run(run)
    assert {key: run[key] for key in ("id", "created_at", "job_id")} == {
        key: going[key] for key in ("id", "created_at", "job_id")
    }


@pytest.mark.parametrize("body", [{"name": "b"}, {"name": "b", "num_workers": 2, "num_cpus": 1}])
def test_a_run_while_one_is_active(
    http: httpx.Client, going: dict[str, Any], body: dict[str, Any]
) -> None:
    answer = http.post("/api/runs", json=body, headers=ACCEPT)
    refused = as_printed(answer, 409)
    assert refused["status"] == 409
    assert f"run {going['id']} ({NAME}) is active" in refused["message"]
