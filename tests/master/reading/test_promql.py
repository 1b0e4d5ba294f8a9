"""Asking the real Prometheus, and what becomes of its failures."""

import math
import random
import time

import pytest

from master.reading.promql import PrometheusClient, PrometheusError, quote, select
from master.recording.remote_write import RemoteWriter
from master.recording.samples import spell
from tests.conftest import PrometheusServer, free_port
from tests.master.making import time_series

NOW_MS = time.time_ns() // 1_000_000


def test_a_range_gives_raw_samples_and_a_vector_one_each(
    writer: RemoteWriter, prometheus: PrometheusClient
) -> None:
    samples = [(NOW_MS - 2, 0.1), (NOW_MS - 1, 2.0), (NOW_MS, 3e-9)]
    writer.send([time_series({"__name__": "asked", "case": "range"}, samples)])
    [found] = prometheus.query('asked{case="range"}[2ms]', NOW_MS / 1000)
    assert found.labels == {"__name__": "asked", "case": "range"}
    assert found.times[-2:] == [(NOW_MS - 1) / 1000, NOW_MS / 1000]
    assert found.values[-2:] == ["2", "3e-09"]
    [latest] = prometheus.query('asked{case="range"}', (NOW_MS + 1) / 1000)
    assert latest.values == ["3e-09"]
    assert prometheus.query('asked{case="range"}', (NOW_MS - 3) / 1000) == []


def test_values_are_written_as_spell_does(
    writer: RemoteWriter, prometheus: PrometheusClient
) -> None:
    dice = random.Random(3)  # noqa: S311 - dice, not secrets
    values = [dice.uniform(-10, 10) * 10.0 ** dice.randrange(-300, 300) for _ in range(200)]
    values += [0.0, -0.0, 1e-6, 9.99e-7, 1e21, 9.9e20, 5e-324, 1.8e308, math.inf, math.nan, 1 / 3]
    samples = [(NOW_MS - 500 + i, value) for i, value in enumerate(values)]
    writer.send([time_series({"__name__": "asked", "case": "spell"}, samples)])
    [found] = prometheus.query('asked{case="spell"}[1s]', NOW_MS / 1000)
    assert found.values == [spell(value) for value in values]


def test_without_a_time_it_asks_for_now(prometheus: PrometheusClient) -> None:
    before = time.time()
    [found] = prometheus.query("vector(1)")
    assert before - 0.01 <= found.times[0] <= time.time() + 0.01


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        'quo"ted',
        "back\\slash\\",
        "two\nlines",
        "a\r\tb",
        "ü 𝄞",
        "nul\x00",
        "'`",
        'a"],[b',
        '\\"],["x\\\\"],[',
    ],
)
def test_any_text_can_be_asked_for(
    writer: RemoteWriter, prometheus: PrometheusClient, value: str
) -> None:
    labels = {"__name__": "asked", "case": "quote", "text": value}
    writer.send([time_series(labels, [(NOW_MS - 1, 1.0), (NOW_MS, 2.0)])])
    [found] = prometheus.query(f"asked{{text={quote(value)}}}", NOW_MS / 1000)
    assert found.labels["text"] == value
    assert prometheus.query(select(labels), NOW_MS / 1000) == [found]
    [raw] = prometheus.query(f"{select(labels)}[2ms]", NOW_MS / 1000)
    assert (raw.labels["text"], raw.values) == (value, ["1", "2"])
    assert prometheus.series(select(labels), NOW_MS - 1, NOW_MS) == [labels]


def test_a_query_at_each_step(writer: RemoteWriter, prometheus: PrometheusClient) -> None:
    labels = {"__name__": "asked", "case": "steps"}
    writer.send([time_series(labels, [(NOW_MS - 10, 1.0), (NOW_MS, 2.0)])])
    [found] = prometheus.query_range(select(labels), NOW_MS - 15, NOW_MS, 5)
    assert found.times == [(NOW_MS - ms) / 1000 for ms in (10, 5, 0)]
    assert found.values == ["1", "1", "2"]


def test_a_refused_query_says_why(prometheus: PrometheusClient) -> None:
    with pytest.raises(PrometheusError, match="parse error"):
        prometheus.query("sum(")


def test_nobody_there_gives_no_answer() -> None:
    client = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(PrometheusError, match="gave no answer"):
        client.query("up")
    assert not client.ready()
    client.close()


def test_ready_says_whether_it_is(own_prometheus: PrometheusServer) -> None:
    client = PrometheusClient(own_prometheus.url)
    assert client.ready()
    own_prometheus.kill()
    assert not client.ready()
    client.close()
