"""What Prometheus has lost or forgotten is missed in words, and never taken for the whole."""

import io
import json
import time
import zipfile
from typing import Any

import httpx
import pytest
from falcon.testing import Result, TestClient

from mlbench_master.database.models import Run, pod_owner
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from tests.conftest import PrometheusServer, wait_for
from tests.support import rows

_TARGET = {"metric": "acc", "value": 97.0, "lower_is_better": False}
# What each run of these tests records: 40 steps of two series on each of two ranks.
SAMPLES = 160
FORMS = ("json", "csv", "zip")


@pytest.fixture
def shared_prometheus(own_prometheus: PrometheusServer) -> PrometheusServer:
    """One of its own for each test, which has it lose what it holds."""
    return own_prometheus


def make_finished(delivery: SampleDelivery, began: float) -> Run:
    """Store a run whose 20th step reaches the target, and deliver its samples."""
    ended: dict[str, Any] = {"finished_at": began + 50, "settled_at": began + 51}
    run = rows.make_run(
        state="FINISHED", target=_TARGET, created_at=began, started_at=began, **ended
    )
    rows.make_ranks(run, assigned_at=began, exited_at=began + 50)
    for rank in (0, 1):
        steps = (rows.line(began + 1 + i, acc=78 + i, train_seconds=i) for i in range(40))
        rows.record(run, b"".join(steps), rank)
    rows.deliver_all(delivery)
    return run


def metrics(api: TestClient, owner: object = "", **params: Any) -> Result:
    path = f"/api/metrics/{owner}/" if owner else "/api/metrics/"
    return api.simulate_get(path, params={"metric_type": "run"} | params)


def text(began: float, seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + seconds))


def test_a_finished_run_of_which_prometheus_lost_a_part_is_an_error_in_words(
    api: TestClient,
    writer: RemoteWriter,
    delivery: SampleDelivery,
    own_prometheus: PrometheusServer,
) -> None:
    """Also its result, its comparison, and every part of it that cannot be known to be whole."""
    began = float(round(time.time()) - 60)
    lost = make_finished(delivery, began)
    whole = metrics(api, lost.id).json
    assert sum(map(len, whole.values())) == SAMPLES
    result = api.simulate_get(f"/api/runs/{lost.id}/result/").json
    assert result["time_to_target"]["training_seconds"] == 19.0

    own_prometheus.lose_everything()
    other = make_finished(delivery, began)
    # What is written once more, Prometheus has: the last ten steps of one series.
    labels = {"__name__": "mlbench_run_metric", "run_id": str(lost.id), "metric": "acc"}
    points = [(round((began + 31 + i) * 1000), 108.0 + i) for i in range(10)]
    writer.send([rows.time_series(labels | {"rank": "0"}, points)])

    words = (
        f"Prometheus has 10 of the {SAMPLES} samples of run {lost.id}: "
        "it lost or forgot the rest (retention, a lost disk)"
    )
    for form in FORMS:
        answer = metrics(api, lost.id, format=form)
        assert (answer.status_code, answer.json["message"]) == (502, words)
    for path in (f"/api/runs/{lost.id}/result/", f"/api/compare/?runs={other.id},{lost.id}"):
        answer = api.simulate_get(path)
        assert answer.status_code == 502
        assert f"samples of run {lost.id}: it lost or forgot the rest" in answer.json["message"]
    # Of a part it is not known how much there should be, so the whole series must be there.
    for part in (
        {"since": text(began, 32)},
        {"until": text(began, 5)},
        {"last_n": 2},
        {"summarize": 3},
        {"metric_filter": "acc"},
        {"metric_filter": "acc @ 0", "last_n": 1},
    ):
        assert metrics(api, lost.id, **part).status_code == 502, part
        assert metrics(api, other.id, **part).status_code == 200, part
    # Here there never was anything.
    assert metrics(api, lost.id, since=text(began, 50)).json == {}
    assert metrics(api, lost.id, metric_filter="absent").json == {}

    everything = metrics(api).json
    assert everything[str(lost.id)] == words
    assert everything[str(other.id)] == whole
    lines = metrics(api, format="csv").text.splitlines()
    assert f'{lost.id},,,"{words}",,,' in lines or f"{lost.id},,,{words},,," in lines
    assert len([row for row in lines if row.startswith(f"{other.id},")]) == SAMPLES
    with zipfile.ZipFile(io.BytesIO(metrics(api, format="zip").content)) as archive:
        assert archive.read(f"{lost.id}/INCOMPLETE.txt").decode() == words
        assert f"{lost.id}/result_acc @ 0.json" not in archive.namelist()
        assert len(json.loads(archive.read(f"{other.id}/result_acc @ 0.json"))) == 40


def test_a_series_that_prometheus_was_told_to_forget_is_missed_and_the_others_are_read(
    api: TestClient, delivery: SampleDelivery, own_prometheus: PrometheusServer
) -> None:
    own_prometheus.kill()
    own_prometheus.start("--web.enable-admin-api")
    run = make_finished(delivery, float(round(time.time()) - 60))
    selector = f'mlbench_run_metric{{run_id="{run.id}",metric="acc",rank="1"}}'
    url = f"{own_prometheus.url}/api/v1/admin/tsdb/delete_series"
    assert httpx.post(url, params={"match[]": selector}).status_code == 204
    wait_for(lambda: metrics(api, run.id).status_code == 502, what="it is forgotten")
    assert f"has 120 of the {SAMPLES} samples" in metrics(api, run.id).json["message"]
    assert metrics(api, run.id, metric_filter="acc @ 1").status_code == 502
    for name in ("acc @ 0", "train_seconds"):
        assert metrics(api, run.id, metric_filter=name).status_code == 200
        assert metrics(api, run.id, metric_filter=name, last_n=1).status_code == 200


def test_missing_samples_of_an_active_run_may_be_asked_for_again(
    api: TestClient, delivery: SampleDelivery, own_prometheus: PrometheusServer
) -> None:
    """As the controller has it delivered again."""
    run = make_finished(delivery, float(round(time.time()) - 60))
    Run.update(state="STARTED", finished_at=None, settled_at=None).execute()
    own_prometheus.lose_everything()
    answer = metrics(api, run.id)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert f"has 0 of the {SAMPLES} samples" in answer.json["message"]


def test_lost_samples_of_a_pod_are_missed_and_later_ones_read(
    api: TestClient, delivery: SampleDelivery, own_prometheus: PrometheusServer
) -> None:
    """A pod outlives what Prometheus remembers of it."""
    pod, now_us = rows.make_pod(), time.time_ns() // 1_000_000 * 1000
    posted = [Sample("heat", "", now_us - (9 - i) * 1_000_000, float(i)) for i in range(10)]
    rows.post(pod_owner(pod), posted[:9])
    rows.deliver_all(delivery)
    own_prometheus.lose_everything()
    rows.post(pod_owner(pod), posted[9:])
    rows.deliver_all(delivery)
    answer = metrics(api, pod, metric_type="pod")
    assert answer.status_code == 502
    assert f"has 1 of the 10 samples of pod {pod}" in answer.json["message"]
    since = text(now_us / 1e6 - 2, 0)
    later = metrics(api, pod, metric_type="pod", since=since)
    assert [point["value"] for point in later.json["heat"]] == ["9"]
