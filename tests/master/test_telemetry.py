"""The master's /metrics, which promtool accepts."""

import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from falcon.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families

from mlbench.contract.distribution import own_version
from mlbench.evaluation.summary_metrics import SummaryMetrics
from mlbench_master.app import create_app
from mlbench_master.database.connection import store
from mlbench_master.database.models import Pod, Run, run_owner
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording import streams
from mlbench_master.recording.samples import Sample
from mlbench_master.settings import Settings
from tests.support.known import known
from tests.support.recording import Recording
from tests.support.rows import line, make_pod, make_ranks, make_run, make_worker, post, record


def scrape(api: TestClient) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return labels and value of every series, by metric name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(api.simulate_get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(api: TestClient, name: str, **labels: str) -> float | None:
    """Return the value of the only series with these labels, or None."""
    found = [v for ls, v in scrape(api).get(name, []) if labels.items() <= ls.items()]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.both_databases
def test_promtool_accepts_the_metrics(api: TestClient, promtool: Path) -> None:
    def check() -> None:
        answer = api.simulate_get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        command = [str(promtool), "check", "metrics"]
        done = subprocess.run(command, input=answer.content, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    check()
    make_run(state="FINISHED", started_at=1.0, finished_at=2.0, target_reached_at=1.5)
    make_worker(make_pod())
    make_run(target={"metric": 'ü "\\\n', "value": 97.0, "lower_is_better": False})
    api.simulate_get("/api/runs")
    check()


# --- Requests ---


def test_requests_are_counted_by_route_and_status(api: TestClient) -> None:
    for run_id in (1, 2):
        api.simulate_get(f"/api/runs/{run_id}")
    api.simulate_get("/api/runs", headers={"Authorization": ""})
    for path in ("/nothing", "/nowhere"):
        api.simulate_get(path)
    requests = scrape(api)["mlbench_http_requests_total"]
    counted = {(labels["route"], labels["status"]): number for labels, number in requests}
    route = "/api/runs/{run_id:int}"
    assert counted == {(route, "404"): 2, ("/api/runs", "401"): 1, ("none", "404"): 2}
    assert {labels["method"] for labels, _ in requests} == {"GET"}
    timed = {(ls["route"]): v for ls, v in scrape(api)["mlbench_http_request_seconds_count"]}
    assert timed[route] == 2


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
def test_unknown_methods_share_one_series(api: TestClient) -> None:
    for method in ("BREW", "X" * 20, "get"):
        assert api.simulate_request(method, "/api/runs").status_code in {400, 405}
    methods = {ls["method"] for ls, _ in scrape(api)["mlbench_http_requests_total"]}
    assert methods == {"other"}


# --- Master ---


def test_waiting_bytes_and_unexported_samples(api: TestClient, recording: Recording) -> None:
    run = make_run()
    streams.append(streams.StreamKey(run_owner(run.id), 1, 0, "stdout"), 0, b"not a sample")
    assert value(api, "mlbench_spool_bytes") == 0
    stream = record(run, line(time.time(), a=1, text="x"))
    post(run_owner(run.id), [Sample("b", "", 0, 1.0)])
    assert known(value(api, "mlbench_spool_bytes")) > stream.size
    assert value(api, "mlbench_unexported_samples") == 0
    recording.index_all()
    assert value(api, "mlbench_spool_bytes") == 0
    assert value(api, "mlbench_unexported_samples") == 3
    recording.export_all()
    assert value(api, "mlbench_unexported_samples") == 0


def test_master_info(settings: Settings, api: TestClient, prometheus: PrometheusClient) -> None:
    app = create_app(replace(settings, url="http://example.org/m", spool_bytes=5), prometheus)
    [(labels, _)] = scrape(TestClient(app))["mlbench_master_info"]
    assert labels == {"url": "http://example.org/m", "version": own_version()}
    assert value(TestClient(app), "mlbench_spool_limit_bytes") == 5


def test_runs_of_a_set_show_their_swept_values(api: TestClient) -> None:
    make_run()
    run = make_run(set_name="grid", swept={"exchange": "flat", "rate": "1mbit"})
    [(labels, _)] = scrape(api)["mlbench_run_set_info"]
    assert labels == {"run_id": str(run.id), "set": "grid", "swept": "exchange flat, rate 1mbit"}


# --- Pods ---


def test_pods_and_their_last_heartbeats(api: TestClient) -> None:
    heard, silent = make_pod(), make_pod()
    make_worker(heard, seen_at=12.5)
    make_worker("gone")
    Pod.update(phase="Pending").where(Pod.name == silent).execute()
    metrics = scrape(api)
    assert [labels for labels, _ in metrics["mlbench_pod_info"]] == [
        {"pod": pod, "phase": "Running" if pod == heard else "Pending", "node": "here"}
        for pod in sorted([heard, silent])
    ]
    assert metrics["mlbench_pod_heartbeat_timestamp_seconds"] == [({"pod": heard}, 12.5)]


def test_external_ranks_have_the_reported_resources(api: TestClient) -> None:
    run, pod = make_run(num_workers=2, launcher="slurm"), make_pod()
    Pod.update(external=True).where(Pod.name == pod).execute()
    make_ranks(run, [pod])
    used = {"container_cpu_usage_seconds_total": 1.5, "container_processes": 3.0}
    used["mlbench_worker_steps_total"] = 7.0
    make_worker(pod, state="running", run_id=run.id, attempt=1, resources=used)
    rank = {"run_id": str(run.id), "rank": "0"}
    assert value(api, "mlbench_worker_info", pod=pod, **rank) == 1
    assert value(api, "mlbench_worker_running", **rank) == 1
    whose = {"namespace": "", "pod": pod, "container": "worker", "node": "here"}
    metrics = scrape(api)
    assert metrics["container_cpu_usage_seconds_total"] == [(whose, 1.5)]
    assert metrics["container_processes"] == [(whose, 3.0)]
    assert metrics["mlbench_worker_steps_total"] == [(rank, 7.0)]
    Run.update(state="FINISHED").where(Run.id == run.id).execute()
    assert value(api, "mlbench_worker_info", pod=pod) is None


# --- Runs ---


def test_a_run_is_described(api: TestClient) -> None:
    target = {"metric": "val", "value": 97.0, "lower_is_better": False}
    given = {"target": target, "num_cpus": 2, "settings": {"threads": 4}}
    run = make_run(3, created_at=10.5, started_at=11.0, **given)
    run_id = str(run.id)
    metrics = scrape(api)
    what = {"name": "made", "user": "", "benchmark": "steps", "backend": "gloo", "workers": "3"}
    assert metrics["mlbench_run_info"] == [({"run_id": run_id, **what}, 1)]
    stated = {"run_id": run_id, "metric": "val", "better": "higher"}
    assert metrics["mlbench_run_target"] == [(stated, 97.0)]
    later = (
        "mlbench_run_finished_timestamp_seconds",
        "mlbench_run_target_reached_timestamp_seconds",
        "mlbench_run_time_to_target_seconds",
    )
    assert not metrics.keys() & set(later)
    Run.update(finished_at=30.0, target_reached_at=20.5, target_train_seconds=4.25).execute()
    metrics = scrape(api)
    expected = {
        "mlbench_run_created_timestamp_seconds": 10.5,
        "mlbench_run_started_timestamp_seconds": 11.0,
        "mlbench_run_workers": 3,
        "mlbench_run_cpus": 2,
        "mlbench_run_threads": 4,
        "mlbench_run_attempts": 1,
        **dict(zip(later, (30.0, 20.5, 4.25), strict=True)),
    }
    assert {name: metrics[name] for name in expected} == {
        name: [({"run_id": run_id}, number)] for name, number in expected.items()
    }


def test_the_reason_of_a_failure_is_shortened(api: TestClient) -> None:
    for state, reason in (
        ("FAILED", "rank 1 exited with code 1\nTraceback:\n  at line 3\nValueError: too many"),
        ("FAILED", "given up " * 100),
        ("STOPPED", "stopped by its user"),
    ):
        make_run(state=state, reason=reason)
    found = [labels["reason"] for labels, _ in scrape(api)["mlbench_run_failure_info"]]
    assert sorted(found) == ["ValueError: too many", ("given up " * 100)[:100]]


def test_each_of_the_newest_thirty_runs_is_in_one_state(api: TestClient) -> None:
    states = ("INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED")
    made = {str(make_run(state=states[i % 5]).id): states[i % 5] for i in range(33)}
    series = scrape(api)["mlbench_run_state"]
    assert len(series) == 150
    shown = {labels["run_id"]: labels["state"] for labels, is_it in series if is_it}
    assert shown == dict(list(made.items())[3:])


@pytest.mark.both_databases
def test_the_lost_ranks_of_the_latest_attempt_are_counted(api: TestClient) -> None:
    run = make_run(attempt=1)
    make_ranks(run, lost="gone")
    store(run, attempt=2)
    one, _ = make_ranks(run)
    assert value(api, "mlbench_run_lost_ranks", run_id=str(run.id)) == 0
    store(one, lost="gone too")
    assert value(api, "mlbench_run_lost_ranks", run_id=str(run.id)) == 1


@pytest.mark.both_databases
def test_the_samples_of_a_run(api: TestClient, recording: Recording) -> None:
    def samples() -> dict[str, float]:
        series = scrape(api).get("mlbench_run_samples", [])
        return {labels["place"]: v for labels, v in series}

    run = make_run()
    stream = record(run, line(time.time(), a=1, b=2, text="x"))
    assert samples() == {"recorded": 0}
    assert value(api, "mlbench_run_waiting_bytes", run_id=str(run.id)) == stream.size
    recording.index_all()
    assert samples() == {"recorded": 3}
    assert value(api, "mlbench_run_waiting_bytes", run_id=str(run.id)) == 0
    # An ended run shows the verified counts.
    Run.update(state="STOPPED").execute()
    assert samples() == {}
    counted = {"recorded": 5, "in_prometheus": 3, "record_only": 1}
    Run.update(delivery=counted).execute()
    assert samples() == counted
    assert value(api, "mlbench_run_waiting_bytes", run_id=str(run.id)) is None


def test_an_ended_run_has_its_summary_metrics(api: TestClient) -> None:
    figures = SummaryMetrics(
        disturbed=True,
        contention_share=0.25,
        contention_rank=1,
        samples_per_second=469.0,
        late_rank=0,
        without_late=1.5,
        metric="acc",
        best_value=98.5,
        phases={"forward": 2.5, "other": 0.5},
        goodput={"compute": 5.0, "lost": 1.0},
    )
    former = {"slowest_rank": 1}  # a metric of an earlier version
    run_id = str(make_run(state="FINISHED", figures=asdict(figures) | former).id)
    make_run(state="FAILED")  # sealed by an earlier version
    metrics = scrape(api)
    for name, labels, number in (
        ("disturbed", {}, 1.0),
        ("cpu_contention_ratio", {"rank": "1"}, 0.25),
        ("samples_per_second", {}, 469.0),
        ("straggler_ratio", {"rank": "0"}, 1.5),
        ("best_value", {"metric": "acc"}, 98.5),
    ):
        assert metrics[f"mlbench_run_{name}"] == [({"run_id": run_id, **labels}, number)]
    phases = {labels["phase"]: v for labels, v in metrics["mlbench_run_phase_seconds"]}
    assert phases == figures.phases
    cut = {labels["bucket"]: v for labels, v in metrics["mlbench_run_goodput_seconds"]}
    assert cut == figures.goodput
    assert "mlbench_run_epochs" not in metrics
