"""What Prometheus has lost or forgotten is answered from the record, as if it were there."""

import time
from typing import Any

import httpx
import pytest
from falcon.testing import Result, TestClient

from mlbench_master.database.models import Run, pod_owner
from mlbench_master.recording.samples import Sample
from tests.conftest import PrometheusServer, wait_for
from tests.support import rows
from tests.support.recording import Recording

_SELECTIONS: list[dict[str, Any]] = [
    *({}, {"last_n": 2}, {"summarize": 3}, {"metric_filter": "acc"}),
    {"metric_filter": "acc @ 0", "last_n": 1},
    {"format": "csv"},
]


@pytest.fixture
def shared_prometheus(own_prometheus: PrometheusServer) -> PrometheusServer:
    """One of its own for each test, which has it lose what it holds."""
    return own_prometheus


def make_finished(recording: Recording) -> Run:
    """Store a run that has ended, and export its samples.

    It has 40 steps of two numbers on each of two ranks, and a text.
    """
    began = float(round(time.time()) - 60)
    fields: dict[str, Any] = {"created_at": began, "started_at": began, "finished_at": began + 50}
    run = rows.make_run(state="FINISHED", **fields)
    rows.make_ranks(run, assigned_at=began, exited_at=began + 50)
    for rank in (0, 1):
        steps = (rows.line(began + 1 + i, acc=78 + i, train_seconds=i) for i in range(40))
        rows.record(run, b"".join(steps), rank)
    rows.record(run, rows.line(began + 41, text="the end"))
    recording.run_all()
    return run


def metrics(api: TestClient, run: Run, **params: Any) -> Result:
    answer = api.simulate_get(f"/api/metrics/{run.id}/", params={"metric_type": "run"} | params)
    assert answer.status_code == 200, answer.text
    return answer


def read(api: TestClient, run: Run) -> list[object]:
    """Return the samples of a run as each selection has them.

    A zip file also has figures of the run's pods, which only Prometheus has.
    """
    return [metrics(api, run, **selection).text for selection in _SELECTIONS]


def source(api: TestClient, run: Run) -> str | None:
    found: str | None = metrics(api, run).headers.get("MLBench-Source")
    return found


def test_a_series_that_prometheus_was_told_to_forget_is_read_from_the_record(
    api: TestClient, recording: Recording, own_prometheus: PrometheusServer
) -> None:
    own_prometheus.kill()
    own_prometheus.start("--web.enable-admin-api")
    run = make_finished(recording)
    before = read(api, run)
    selector = f'mlbench_run_metric{{run_id="{run.id}",metric="acc",rank="1"}}'
    url = f"{own_prometheus.url}/api/v1/admin/tsdb/delete_series"
    assert httpx.post(url, params={"match[]": selector}).status_code == 204
    wait_for(lambda: source(api, run) == "record", what="it is forgotten")
    assert read(api, run) == before
    answer = metrics(api, run, metric_filter="train_seconds")
    assert answer.headers["MLBench-Source"] == "prometheus"
    answer = metrics(api, run, metric_filter="acc @ 0")
    assert answer.headers["MLBench-Source"] == "record", "its metric is not there as a whole"


def test_posted_samples_of_a_pod_are_in_the_record(
    api: TestClient, recording: Recording, own_prometheus: PrometheusServer
) -> None:
    pod, now_us = rows.make_pod(), time.time_ns() // 1000
    posted = [Sample("heat", "", now_us - (9 - i) * 1_000_000, float(i)) for i in range(10)]
    rows.post(pod_owner(pod), posted[:9])
    recording.run_all()
    own_prometheus.lose_everything()
    rows.post(pod_owner(pod), posted[9:])
    answer = api.simulate_get(f"/api/metrics/{pod}/", params={"metric_type": "pod"})
    assert [point["value"] for point in answer.json["heat"]] == list("0123456789")
