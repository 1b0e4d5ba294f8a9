"""``GET /api/metrics`` for all pods or all runs."""

import time

import pytest
from falcon.testing import TestClient

from mlbench_master.database.models import Pod, pod_owner, run_owner
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.samples import Sample
from mlbench_master.timestamps import to_text
from tests.support.reading import CPU, OLD, OLD_US, get, get_run, opened, point, rows, scrape
from tests.support.recording import Recording
from tests.support.rows import line, make_pod, make_run, post, record


def test_all_pods(api: TestClient, writer: RemoteWriter, recording: Recording) -> None:
    first, second, gone = sorted(make_pod() for _ in range(3))
    now_ms = time.time_ns() // 1_000_000
    scrape(writer, first, now_ms - 1_000, 0.5)
    post(pod_owner(first), [Sample("a", "", now_ms * 1000, 1.0)])
    post(pod_owner(gone), [Sample("a", "", OLD_US, 2.0)])
    Pod.delete_by_id(gone)
    cpu = point((now_ms - 1_000) * 1000, "0.5")
    of_first = {"a": [point(now_ms * 1000, "1")], CPU: [cpu]}
    expected = {first: of_first, second: {}, gone: {"a": [point(OLD_US, "2")]}}
    for _ in range(2):
        assert get(api).json == expected
        assert get(api, metric_filter=CPU).json == {first: {CPU: [cpu]}, second: {}, gone: {}}
        recording.run_all()
    assert rows(get(api, format="csv")) == [
        ["pod", "series", "date", "value", "cumulative", "metadata", "added"],
        [first, "a", to_text(now_ms * 1000), "1", "", "", ""],
        [first, CPU, cpu["date"], "0.5", "", "", ""],
        [gone, "a", OLD, "2", "", "", ""],
    ]
    files = {f"{first}/result_a.json", f"{first}/result_{CPU}.json", f"{gone}/result_a.json"}
    assert set(opened(get(api, format="zip"))) == files


def test_metrics_of_all_pods_need_few_queries(
    api: TestClient, writer: RemoteWriter, recording: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    pods = sorted(make_pod() for _ in range(20))
    now_ms = time.time_ns() // 1_000_000
    for pod in pods:
        scrape(writer, pod, now_ms - 1_000, 0.5)
        post(pod_owner(pod), [Sample("a", "", now_ms * 1000, 1.0), Sample("b", "", OLD_US, 2.0)])
    recording.run_all()
    post(pod_owner(pods[0]), [Sample("c", "", now_ms * 1000, 3.0)])
    for name, having in ((CPU, pods), ("a", pods), ("b", pods), ("c", pods[:1])):
        caplog.clear()
        with caplog.at_level("INFO", logger="httpx"):
            metrics = get(api, metric_filter=name).json
        found = {pod: list(series) for pod, series in metrics.items() if series}
        assert found == {pod: [name] for pod in having}
        if name == CPU:
            assert len(caplog.records) <= 3


def test_without_pods_runs_or_samples(api: TestClient) -> None:
    for kind in ("pod", "run"):
        assert get(api, metric_type=kind).json == {}
        assert opened(get(api, metric_type=kind, format="zip")) == {}
    run = make_run()
    assert get_run(api, run).json == opened(get_run(api, run, format="zip")) == {}
    header = ["series", "date", "value", "cumulative", "metadata", "added"]
    assert rows(get_run(api, run, format="csv")) == [header]


def test_all_runs(api: TestClient, recording: Recording) -> None:
    first, second = make_run(), make_run()
    post(run_owner(first.id), [Sample("a", "0", OLD_US, 1.0, True, "m")])
    record(second, line(round(time.time(), 3), b=2))
    for _ in range(2):
        runs = get(api, metric_type="run").json
        assert list(runs) == [str(first.id), str(second.id)]
        assert runs[str(first.id)] == get_run(api, first).json
        assert runs[str(second.id)] == get_run(api, second).json
        recording.run_all()
    assert rows(get(api, metric_type="run", format="csv"))[:2] == [
        ["run", "series", "date", "value", "cumulative", "metadata", "added"],
        [str(first.id), "a @ 0", OLD, "1", "true", '"m"', ""],
    ]
    files = {f"{first.id}/result_a @ 0.json", f"{second.id}/result_b @ 0.json"}
    assert set(opened(get(api, metric_type="run", format="zip"))) == files
