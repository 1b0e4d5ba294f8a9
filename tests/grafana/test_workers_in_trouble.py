"""The page of workers shows every alert of a worker, and keeps workers whose scrape fails."""

import time
import uuid
from collections.abc import Iterator

import pytest

from mlbench.contract import names
from mlbench_master.reading.promql import QueryResult
from tests.conftest import PrometheusServer
from tests.support.panels import View, ask_board
from tests.support.rows import STALE, TimeSeries, level, series, write

_SECONDS = 20


@pytest.fixture(scope="module")
def answers(shared_prometheus: PrometheusServer) -> dict[str, list[QueryResult]]:
    """Query results for four workers, by panel and query."""
    now = time.time()
    write(shared_prometheus.url, _series(uuid.uuid4().hex[:8], now - _SECONDS))
    view = View("now", now - _SECONDS, now, "")
    return ask_board(shared_prometheus.url, "mlbench-workers", view)


def test_each_alert_of_a_worker_is_named(answers: dict[str, list[QueryResult]]) -> None:
    named = {
        (result.labels["pod"][-1], result.labels["trouble"])
        for result in answers["Worker pods / wrong"]
    }
    both = {("b", "Straggler"), ("b", "CPUContention")}
    assert named == {*both, ("a", "CPUContention"), ("c", "-"), ("d", "-")}


def test_a_worker_whose_scrape_fails_keeps_its_run(answers: dict[str, list[QueryResult]]) -> None:
    ranks = {
        result.labels["pod"][-1]: result.labels.get("rank", "")
        for result in answers["Worker pods / work"]
    }
    assert ranks == {"a": "0", "b": "1", "c": "2", "d": ""}
    assert [result.values[-1] for result in answers["Working / A"]] == ["3"]


def test_the_straggler_comes_first(answers: dict[str, list[QueryResult]]) -> None:
    [ref] = [place for place in answers if place.startswith("Worker activity /")]
    assert [(result.labels["row"][-1], result.labels["work"]) for result in answers[ref]] == [
        ("b", "Straggler: run 1 rank 1"),
        ("a", "run 1 rank 0"),
        ("c", "run 1 rank 2"),
        ("d", "idle"),
    ]


def test_many_workers_are_drawn_by_node(shared_prometheus: PrometheusServer) -> None:
    now = time.time() - 2400  # no other test uses this time range
    run_id = uuid.uuid4().hex[:8]
    write(shared_prometheus.url, _many(run_id, now - _SECONDS))
    view = View("earlier", now - _SECONDS, now, "")
    answers = ask_board(shared_prometheus.url, "mlbench-workers", view)
    [ref] = [place for place in answers if place.startswith("Worker activity /")]
    assert [(result.labels["row"], result.labels["work"]) for result in answers[ref]] == [
        ("n1", f"Straggler: run {run_id} rank 9"),
        ("n0", f"run {run_id}"),
        ("n2", "idle"),
    ]
    # A worker that was never scraped is not part of the activity.
    assert [result.values[-1] for result in answers["Not scraped / A"]] == ["1"]


def _many(run_id: str, first: float) -> Iterator[TimeSeries]:
    """Make 24 workers on three nodes, one of which is idle."""
    times = [first + second for second in range(0, _SECONDS + 1, 2)]
    yield level(names.RUN_INFO, times, 1, run_id=run_id, name="many")
    for number in range(24):
        pod, node = f"{run_id}-{number}", number // 8
        yield level(names.POD_INFO, times, 1, phase="Running", node=f"n{node}", pod=pod)
        work = {"run_id": run_id, "rank": str(number)} if node < 2 else {"run_id": "", "rank": ""}
        if number:
            yield level(names.WORKER_INFO, times, 1, pod=pod, **work)
    alert = {"alertname": "MLBenchStraggler", "alertstate": "firing", "severity": "warning"}
    yield level("ALERTS", times, 1, pod=f"{run_id}-9", **alert)


def _series(key: str, first: float) -> Iterator[TimeSeries]:
    times = [first + second for second in range(0, _SECONDS + 1, 2)]
    for pod, rank in (("a", "0"), ("b", "1"), ("c", "2"), ("d", "")):
        of = {"pod": f"{key}-{pod}"}
        yield level(names.POD_INFO, times, 1, phase="Running", node="n", **of)
        # The last scrape of worker "c" failed.
        values = [*[1.0] * (len(times) - 1), STALE if pod == "c" else 1.0]
        run_id = "1" if rank else ""
        yield series(names.WORKER_INFO, times, values, run_id=run_id, rank=rank, **of)
    for alert, pod in (("Straggler", "b"), ("CPUContention", "b"), ("CPUContention", "a")):
        firing = {"alertname": f"MLBench{alert}", "alertstate": "firing", "pod": f"{key}-{pod}"}
        yield level("ALERTS", times, 1, **firing)
