"""The page of workers names every alert of each, and forgets none whose scrape fails."""

import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from mlbench.contract import names
from mlbench_master.reading.promql import PrometheusClient, QueryResult
from mlbench_master.recording.remote_write import TimeSeries
from tests.conftest import PrometheusServer
from tests.support.panels import Grafana, View
from tests.support.rows import level, series, write

# What Prometheus writes for a series of a target whose scrape failed.
[_STALE] = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))
_SECONDS = 20


@pytest.fixture(scope="module")
def answers(shared_prometheus: PrometheusServer) -> dict[str, list[QueryResult]]:
    """What the page is answered of four workers, by panel and query."""
    now = time.time()
    write(shared_prometheus.url, _series(uuid.uuid4().hex[:8], now - _SECONDS))
    with closing(PrometheusClient(shared_prometheus.url)) as prometheus:
        return Grafana(prometheus, View("now", now - _SECONDS, now, "")).answers("mlbench-workers")


def test_each_alert_of_a_worker_is_named(answers: dict[str, list[QueryResult]]) -> None:
    named = {
        (one.labels["pod"][-1], one.labels["trouble"]) for one in answers["Worker pods / wrong"]
    }
    both = {("b", "Straggler"), ("b", "CPUContention")}
    assert named == {*both, ("a", "CPUContention"), ("c", "-"), ("d", "-")}


def test_a_worker_whose_scrape_fails_keeps_its_run(answers: dict[str, list[QueryResult]]) -> None:
    ranks = {
        one.labels["pod"][-1]: one.labels.get("rank", "") for one in answers["Worker pods / work"]
    }
    assert ranks == {"a": "0", "b": "1", "c": "2", "d": ""}
    assert [one.values[-1] for one in answers["Working / A"]] == ["3"]


def test_the_straggler_comes_first(answers: dict[str, list[QueryResult]]) -> None:
    [ref] = [place for place in answers if place.startswith("Worker activity /")]
    assert [one.labels["pod"][-1] for one in answers[ref]] == ["b", "a", "c", "d"]
    assert {one.labels["work"].partition(" rank ")[2] for one in answers[ref]} == {
        "0",
        "1",
        "2",
        "",
    }


def _series(key: str, first: float) -> Iterator[TimeSeries]:
    times = [first + second for second in range(0, _SECONDS + 1, 2)]
    for pod, rank in (("a", "0"), ("b", "1"), ("c", "2"), ("d", "")):
        of = {"pod": f"{key}-{pod}"}
        yield level(names.POD_INFO, times, 1, phase="Running", node="n", **of)
        # The last scrape of one failed.
        values = [*[1.0] * (len(times) - 1), _STALE if pod == "c" else 1.0]
        run_id = "1" if rank else ""
        yield series(names.WORKER_INFO, times, values, run_id=run_id, rank=rank, **of)
    for alert, pod in (("Straggler", "b"), ("CPUContention", "b"), ("CPUContention", "a")):
        firing = {"alertname": f"MLBench{alert}", "alertstate": "firing", "pod": f"{key}-{pod}"}
        yield level("ALERTS", times, 1, **firing)
