"""The energy of pods' GPUs, from the counters that Prometheus has."""

import time
import uuid

import pytest

from master.reading.promql import PrometheusClient
from master.recording.remote_write import RemoteWriter
from master.results.query import used_joules
from tests.master.making import time_series


def measure(writer: RemoteWriter, pod: str, uuid_: str, began_at: float, watts: float) -> None:
    """Have a GPU draw so many watts for a minute, as a scrape every second shows it."""
    labels = {"__name__": "mlbench_gpu_energy_joules_total", "pod": pod, "uuid": uuid_}
    points = [(round((began_at + i) * 1000), 1e6 + watts * i) for i in range(61)]
    writer.send([time_series(labels, points)])


def test_it_is_what_the_pods_gpus_used_meanwhile(
    prometheus: PrometheusClient, writer: RemoteWriter
) -> None:
    pods = [f"gpu.{uuid.uuid4()}" for _ in range(3)]
    began_at = round(time.time()) - 100.0
    for pod, watts in zip(pods, (300, 400, 1000), strict=True):
        measure(writer, pod, "GPU-a", began_at, watts)
    measure(writer, pods[0], "GPU-b", began_at, 100)
    during = (began_at + 10.5, began_at + 50.5)
    assert used_joules(prometheus, pods[:2], *during) == pytest.approx(40 * 800)
    assert used_joules(prometheus, pods[2:], *during) == pytest.approx(40 * 1000)
    assert used_joules(prometheus, [*pods[:2], "without-a-gpu"], *during) is None


def test_what_was_not_measured_is_none(prometheus: PrometheusClient) -> None:
    now = time.time()
    assert used_joules(prometheus, ["no-such-pod"], now - 60, now) is None
    assert used_joules(prometheus, [], now - 60, now) is None
    assert used_joules(prometheus, ["no-such-pod"], now, now) is None
