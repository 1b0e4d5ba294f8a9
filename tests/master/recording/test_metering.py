"""What is counted of the way to Prometheus, on the way to a real one."""

import time

import pytest
from prometheus_client import CollectorRegistry

from master.models import Run
from master.recording.delivery import Delivery
from master.recording.remote_write import (
    RefusedError,
    RemoteWriter,
    UnavailableError,
    WriterMetrics,
)
from tests.conftest import PrometheusServer, free_port
from tests.master.making import line, record, time_series


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> WriterMetrics:
    return WriterMetrics(registry)


def outcomes(registry: CollectorRegistry, name: str) -> dict[str, float]:
    [family] = [f for f in registry.collect() if f.name == name]
    return {
        sample.labels["outcome"]: sample.value
        for sample in family.samples
        if sample.name == f"{name}_total"
    }


def test_everything_is_counted_from_0(registry: CollectorRegistry, metrics: WriterMetrics) -> None:
    requests = outcomes(registry, "mlbench_writer_requests")
    assert requests == {"accepted": 0, "refused": 0, "unavailable": 0}
    samples = outcomes(registry, "mlbench_writer_samples")
    assert samples == {"delivered": 0, "kept": 0, "refused": 0}


def test_requests_are_counted_by_answer(
    run: Run,
    shared_prometheus: PrometheusServer,
    registry: CollectorRegistry,
    metrics: WriterMetrics,
) -> None:
    writer = RemoteWriter(shared_prometheus.url, metrics=metrics)
    now_ms = time.time_ns() // 1_000_000
    labels = {"__name__": "mlbench_run_metric", "run_id": str(run.id), "metric": "a"}
    writer.send([time_series(labels, [(now_ms, 1.0)])])
    with pytest.raises(RefusedError):
        writer.send([time_series(labels, [(now_ms, 2.0)])])
    writer.close()
    nowhere = RemoteWriter(f"http://127.0.0.1:{free_port()}", metrics=metrics)
    with pytest.raises(UnavailableError):
        nowhere.send([time_series(labels, [(now_ms, 3.0)])])
    nowhere.close()
    requests = outcomes(registry, "mlbench_writer_requests")
    assert requests == {"accepted": 1, "refused": 1, "unavailable": 1}
    assert registry.get_sample_value("mlbench_writer_request_seconds_count") == 3
    success = registry.get_sample_value("mlbench_writer_success_timestamp_seconds")
    assert success == pytest.approx(time.time(), abs=30)


def test_samples_are_counted_by_where_they_went(
    run: Run,
    shared_prometheus: PrometheusServer,
    registry: CollectorRegistry,
    metrics: WriterMetrics,
) -> None:
    now = int(time.time()) - 1
    foreign = {"__name__": "mlbench_run_metric", "run_id": str(run.id), "rank": "0", "metric": "a"}
    writer = RemoteWriter(shared_prometheus.url, metrics=metrics)
    writer.send([time_series(foreign, [(now * 1000, -1.0)])])
    record(run, line(now, a=1, b=2, c="text") + line(now + 0.1, a=3))
    Delivery(writer).deliver_waiting()
    writer.close()
    samples = outcomes(registry, "mlbench_writer_samples")
    assert samples == {"delivered": 2, "kept": 1, "refused": 1}
