"""Queries of the real Prometheus, and its failures."""

import math
import random
import threading
import time
from contextlib import ExitStack

import pytest

from mlbench.contract.series import format_value
from mlbench_master.reading import promql
from mlbench_master.reading.promql import (
    CircuitBreaker,
    NoPrometheusError,
    PrometheusClient,
    PrometheusError,
    quote,
    select,
)
from mlbench_master.recording.remote_write import RemoteWriter
from tests.conftest import PrometheusServer, free_port
from tests.master.conftest import Clock
from tests.support.rows import TimeSeries, send

NOW_MS = time.time_ns() // 1_000_000


def test_values_are_formatted_alike(writer: RemoteWriter, prometheus: PrometheusClient) -> None:
    dice = random.Random(3)  # noqa: S311 - dice, not secrets
    values = [dice.uniform(-10, 10) * 10.0 ** dice.randrange(-300, 300) for _ in range(200)]
    values += [0.0, -0.0, 1e-6, 9.99e-7, 1e21, 9.9e20, 5e-324, 1.8e308, math.inf, math.nan, 1 / 3]
    samples = [(NOW_MS - 500 + i, value) for i, value in enumerate(values)]
    send(writer, TimeSeries({"__name__": "asked", "case": "spell"}, samples))
    [found] = prometheus.query('asked{case="spell"}[1s]', NOW_MS / 1000)
    assert found.values == [format_value(value) for value in values]


@pytest.mark.parametrize(
    "value",
    ['quo"ted', "back\\slash\\", "two\nlines", "ü 𝄞\r\t\x00'`", 'a"],[b', '\\"],["x\\\\"],['],
)
def test_a_label_may_have_any_value(
    writer: RemoteWriter, prometheus: PrometheusClient, value: str
) -> None:
    labels = {"__name__": "asked", "case": "quote", "text": value}
    send(writer, TimeSeries(labels, [(NOW_MS - 1, 1.0), (NOW_MS, 2.0)]))
    [series] = prometheus.query(f"asked{{text={quote(value)}}}", NOW_MS / 1000)
    assert series.labels["text"] == value
    assert prometheus.query(select(labels), NOW_MS / 1000) == [series]
    [raw] = prometheus.query(f"{select(labels)}[2ms]", NOW_MS / 1000)
    assert (raw.labels["text"], raw.values, series.values) == (value, ["1", "2"], ["2"])
    assert prometheus.series(select(labels), NOW_MS - 1, NOW_MS) == [labels]


def test_missing_settings_of_prometheus_are_reported(own_prometheus: PrometheusServer) -> None:
    client = PrometheusClient(own_prometheus.url)
    [deletion] = client.problems()
    assert "Start it with --web.enable-admin-api to have them deleted." in deletion
    own_prometheus.kill()
    own_prometheus.start("--web.enable-admin-api")
    assert client.problems() == []
    config = own_prometheus.folder / "prometheus.yml"
    for window in ("22h59m", ""):
        setting = f"storage: {{tsdb: {{out_of_order_time_window: {window}}}}}" if window else "{}"
        config.write_text(setting)
        own_prometheus.kill()
        own_prometheus.start("--web.enable-admin-api")
        [late] = client.problems()
        assert "Set storage.tsdb.out_of_order_time_window in its configuration to 24h." in late
    client.close()


def test_a_refused_query_says_why(prometheus: PrometheusClient) -> None:
    with pytest.raises(PrometheusError, match="parse error"):
        prometheus.query("sum(")


def test_an_unreachable_server_is_an_error() -> None:
    client = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(PrometheusError, match="gave no answer"):
        client.query("up")
    assert not client.ready()
    client.close()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock)


def fail(breaker: CircuitBreaker) -> None:
    with pytest.raises(NoPrometheusError), breaker.query():
        raise NoPrometheusError("no answer")


def passes(breaker: CircuitBreaker) -> bool:
    try:
        with breaker.query():
            return True
    except PrometheusError:
        return False


def test_three_failures_pause_all_queries(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker)
    fail(breaker)
    assert passes(breaker)
    for _ in range(3):
        fail(breaker)
    with pytest.raises(PrometheusError, match="asked again in 5 s"), breaker.query():
        pass
    clock.now = 4.9
    assert not passes(breaker)
    clock.now = 5.0
    assert passes(breaker)
    assert passes(breaker)


def test_a_single_query_tests_whether_the_server_responds_again(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    for _ in range(3):
        fail(breaker)
    clock.now = 5.0
    fail(breaker)
    clock.now = 9.9
    assert not passes(breaker)
    clock.now = 10.0
    with breaker.query():
        assert not passes(breaker), "another waits for the first"
    assert passes(breaker)


def test_a_refusal_counts_as_an_answer(breaker: CircuitBreaker) -> None:
    for _ in range(5):
        with pytest.raises(PrometheusError), breaker.query():
            raise PrometheusError("parse error")
    assert passes(breaker)


def test_concurrent_queries_are_limited(
    breaker: CircuitBreaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promql, "_QUEUE_SECONDS", 0.01)
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(breaker.query())
        with pytest.raises(PrometheusError, match="8 queries"), breaker.query():
            pass
    waiting = threading.Thread(target=lambda: passes(breaker))
    waiting.start()
    waiting.join()
    assert passes(breaker)
