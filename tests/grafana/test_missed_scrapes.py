"""Missed scrapes do not look like a slow run, and targets without scrapes are counted."""

import time
import uuid
from collections.abc import Iterator

import pytest

from mlbench.contract import names
from tests.conftest import PrometheusServer
from tests.support.panels import View, ask_board
from tests.support.rows import STALE, TimeSeries, level, series, write

_RANKS, _SECONDS, _RATE = 4, 60, 100.0


def test_throughput_includes_ranks_that_are_not_scraped(
    shared_prometheus: PrometheusServer,
) -> None:
    run_id, now = uuid.uuid4().hex[:8], time.time()
    write(shared_prometheus.url, _series(run_id, now - _SECONDS))
    answers = ask_board(shared_prometheus.url, "mlbench-run", View("now", now - 50, now, run_id))
    [throughput] = answers["Throughput / A"]
    values = [float(value) for value in throughput.values]
    assert values == pytest.approx([_RANKS * _RATE] * len(values))
    [missed] = answers["Throughput / B"]
    assert missed.labels["curve"] == f"ranks not scraped, of {_RANKS}"
    assert set(missed.values) == {str(_RANKS // 2)}
    [throughput] = answers["Samples/s / A"]
    assert float(throughput.values[-1]) == pytest.approx(_RANKS * _RATE)


def test_targets_that_prometheus_does_not_know_are_down(
    own_prometheus: PrometheusServer,
) -> None:
    now = time.time()
    times = [now - 4, now - 2]
    write(
        own_prometheus.url,
        [level("up", times, 1, job="master"), level("up", times, 0, job="controller")],
    )
    answers = ask_board(own_prometheus.url, "mlbench-stack", View("now", now - 50, now, ""))
    [down] = answers["Targets down / A"]
    assert down.values[-1] == "2", "the controller does not respond, and the exporter is absent"


def _series(run_id: str, first: float) -> Iterator[TimeSeries]:
    """Make a run whose last two ranks are not scraped in its second half."""
    times = [first + second for second in range(0, _SECONDS + 1, 2)]
    yield level(names.RUN_INFO, times, 1, run_id=run_id, name="watched")
    for moment in (names.RUN_CREATED, names.RUN_STARTED):
        yield level(moment, times, first, run_id=run_id)
    yield level(names.RUN_STATE, times, 1, run_id=run_id, state="STARTED")
    yield level(names.RUN_WORLD_SIZE, times, _RANKS, run_id=run_id)
    yield level("run:mlbench_worker_samples:ranks5m", times, _RANKS, run_id=run_id)
    for rank in range(_RANKS):
        scraped = len(times) if rank < 2 else len(times) // 2
        end = [STALE] * (len(times) > scraped)
        until = times[: scraped + len(end)]
        of = {"run_id": run_id, "rank": str(rank)}
        seconds = [moment - first for moment in times[:scraped]]
        samples = [_RATE * second for second in seconds]
        yield series(names.WORKER_SAMPLES, until, [*samples, *end], **of)
        yield series(f"{names.WORKER_STEP_SECONDS}_sum", until, [*seconds, *end], **of)
        yield series(names.WORKER_RUNNING, until, [*([1.0] * scraped), *end], **of)
