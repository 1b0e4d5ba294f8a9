"""A pod's resource figures from Prometheus: how they are called, and how far back they go."""

import time

import pytest

from mlbench_master.reading import containers
from mlbench_master.reading.points import to_points
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.selection import Selection
from mlbench_master.recording.remote_write import RemoteWriter
from tests.support.reading import StoredPoint, points_of
from tests.support.rows import TimeSeries, send

NOW_MS = time.time_ns() // 1_000_000
CPU = "container_cpu_usage_seconds_total"


def scraped(writer: RemoteWriter, pod: str, ago_ms: int, value: float, **labels: str) -> None:
    found = {"__name__": CPU, "namespace": "default", "container": "worker"} | labels
    points = [(NOW_MS - ago_ms, value)]
    send(writer, TimeSeries(found | {"pod": pod, "job": "exporter"}, points))


def read(
    prometheus: PrometheusClient, pod: str, selection: Selection | None = None
) -> dict[str, list[StoredPoint]]:
    return {
        name: points_of([to_points(read())])
        for _, figures in containers.read(prometheus, [pod], selection or Selection(), NOW_MS)
        for name, read in figures.items()
    }


@pytest.fixture(params=[200_000, 0], ids=["at once", "in windows"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of reading."""
    monkeypatch.setattr(containers, "_AT_ONCE", request.param)


@pytest.fixture
def pod() -> str:
    return f"pod-{time.time_ns()}"


@pytest.mark.usefixtures("way")
def test_a_restarted_exporter_continues_the_series(
    writer: RemoteWriter, prometheus: PrometheusClient, pod: str
) -> None:
    scraped(writer, pod, 20_000, 1, instance="a:9400")
    scraped(writer, pod, 10_000, 2, instance="b:9400")
    scraped(writer, pod, 0, 3, instance="a:9400")
    times = [(NOW_MS - ago) * 1000 for ago in (20_000, 10_000, 0)]
    points = [StoredPoint(*point) for point in zip(times, "123", strict=True)]
    assert read(prometheus, pod) == {CPU: points}
    assert read(prometheus, pod, Selection(after_us=times[0]))[CPU][0].value == "2"
    assert read(prometheus, pod, Selection(until_us=times[1]))[CPU][-1].value == "2"
    assert read(prometheus, pod, Selection(after_us=times[2])) in ({}, {CPU: []})


@pytest.mark.usefixtures("way")
def test_several_containers_are_labelled_by_their_differences(
    writer: RemoteWriter, prometheus: PrometheusClient, pod: str
) -> None:
    scraped(writer, pod, 2_000, 1)
    scraped(writer, pod, 2_000, 2, container='side"car')
    scraped(writer, pod, 2_000, 3, __name__="container_threads")
    scraped(writer, pod, 2_000, 4, __name__="other_threads")
    scraped(writer, f"{pod}-other", 2_000, 5, container="third")
    side, worker = f'{CPU}{{container="side\\"car"}}', f'{CPU}{{container="worker"}}'
    series = read(prometheus, pod)
    values = {name: points[0].value for name, points in series.items()}
    assert values == {side: "2", worker: "1", "container_threads": "3"}
    assert list(read(prometheus, pod, Selection(names=(CPU,)))) == [side, worker]
    assert list(read(prometheus, pod, Selection(names=(side,)))) == [side]
    threads = "container_threads"
    assert list(read(prometheus, pod, Selection(names=(threads,)))) == [threads]
    for unknown in ("container_", "container_.+", "other_threads", f"{CPU}{{"):
        assert read(prometheus, pod, Selection(names=(unknown,))) == {}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_many_pods_are_read_as_each_of_them(
    writer: RemoteWriter,
    prometheus: PrometheusClient,
    pod: str,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    monkeypatch.setattr(containers, "_PODS", at_once)
    pods = [f"{pod}-{name}" for name in ("c", "a", "none", "b.", "bx")]
    for number, name in enumerate(pods):
        if name != f"{pod}-none":
            scraped(writer, name, 3_000, number)
            scraped(writer, name, 2_000, number + 10)
            scraped(writer, name, 2_000, 1, __name__="container_threads")
    scraped(writer, pods[0], 2_000, 7, container="side")
    for selection in (Selection(), Selection(names=(CPU,)), Selection(names=("other",))):
        answers = {
            name: {series: points_of([to_points(read())]) for series, read in figures.items()}
            for name, figures in containers.read(prometheus, pods, selection, NOW_MS)
        }
        assert list(answers) == pods
        assert answers == {name: read(prometheus, name, selection) for name in pods}
    assert len(read(prometheus, pods[0])) == 3
