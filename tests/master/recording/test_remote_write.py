"""Remote write: the bytes of the message, and the meaning of Prometheus's answers."""

import math
import random
import re
import time
from collections.abc import Iterator
from contextlib import closing

import cramjam
import pytest
from prometheus_client import CollectorRegistry

from mlbench_master.database.models import Run
from mlbench_master.recording.remote_write import (
    RemoteWriter,
    SamplesRefusedError,
    UnavailableError,
    WriterMetrics,
)
from tests.conftest import PrometheusServer, free_port
from tests.master.recording.faulty_prometheus import (
    CUT,
    Fault,
    FaultyPrometheus,
    answers,
    faulty_prometheus,
)
from tests.support.places import decode
from tests.support.recording import Recording
from tests.support.rows import TimeSeries, line, record, send, write_request


@pytest.fixture
def faulty() -> Iterator[FaultyPrometheus]:
    with faulty_prometheus("") as faulty:
        yield faulty


@pytest.fixture
def fake(faulty: FaultyPrometheus) -> Iterator[RemoteWriter]:
    writer = RemoteWriter(f"{faulty.url}/")
    yield writer
    writer.close()


def test_the_message_is_protobuf() -> None:
    series = TimeSeries({"b": "2", "__name__": "x"}, [(300, 1.0), (128, 0.5)])
    labels = b"\x0a\x0d\x0a\x08__name__\x12\x01x" + b"\x0a\x06\x0a\x01b\x12\x012"
    first = b"\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xac\x02"
    second = b"\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xe0\x3f\x10\x80\x01"
    content = labels + first + second
    assert write_request([series]).encode() == b"\x0a" + bytes([len(content)]) + content
    assert write_request([series, series]).encode() == write_request([series]).encode() * 2
    assert write_request([]).encode() == b""


TIMES = [0, 1, 127, 128, 129, 16_383, 16_384, 2**31, 1_763_683_200_123, 2**56 - 1, 2**56, 2**63 - 1]


def test_many_series_are_read_as_they_were_written() -> None:
    for at in [*TIMES, *(-1 - ms for ms in TIMES)]:
        labels = {"__name__": "x", "ü": "𝄞\n", "long": "y" * 20_000}
        assert decode(write_request([TimeSeries(labels, [(at, 0.1)])]).encode()) == [
            (labels, [(at, 0.1)])
        ]
    dice = random.Random(1)  # noqa: S311 - dice, not secrets
    series = []
    for i in range(50):
        # Steps of less and of more than 128 ms, also across 1970.
        points = [(-5_000 + step * (1 + i), dice.gauss() * 10**i) for step in range(200)]
        series.append(({"__name__": "x", "i": str(i)}, points))
    series.append(({"__name__": "empty"}, []))
    message = write_request(TimeSeries(*each) for each in series).encode()
    assert decode(message) == series


def test_the_request_follows_the_protocol(faulty: FaultyPrometheus, fake: RemoteWriter) -> None:
    series = write_request([TimeSeries({"__name__": "x"}, [(1, 1.0)])])
    faulty.faults.append(answers(204))
    fake.send(series)
    [request] = faulty.requests
    assert bytes(cramjam.snappy.decompress_raw(request.body)) == series.encode()
    headers = request.headers
    assert headers["Content-Encoding"] == "snappy"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (400, "duplicate sample for timestamp", SamplesRefusedError),
        (500, "too old sample", SamplesRefusedError),
        (500, "the disk is full", UnavailableError),
        *((status, "later", UnavailableError) for status in (401, 404, 429, 503)),
    ],
)
def test_only_permanent_errors_are_refusals(
    faulty: FaultyPrometheus, fake: RemoteWriter, status: int, text: str, error: type[Exception]
) -> None:
    faulty.faults.append(answers(status, text))
    with pytest.raises(error, match=text):
        send(fake)


def test_samples_may_be_written_elsewhere_than_queries_go(faulty: FaultyPrometheus) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    faulty.faults.append(answers(204))
    with closing(RemoteWriter(nowhere, write_url=f"{faulty.url}/receive")) as writer:
        send(writer)
    assert [asked.path for asked in faulty.requests] == ["/receive"]


@pytest.mark.parametrize("fault", [answers(503, "later"), CUT, None])
def test_an_error_contains_no_secret(faulty: FaultyPrometheus, fault: Fault | None) -> None:
    """It is logged, and others may read a log."""
    faulty.faults.append(fault)
    place = faulty.url if fault else f"http://127.0.0.1:{free_port()}"
    with (
        closing(RemoteWriter(f"{place.replace('//', '//user:PASSWORD@')}/SECRET")) as writer,
        pytest.raises(UnavailableError, match=f"{place}: ") as raised,
    ):
        send(writer)
    assert not {"SECRET", "PASSWORD"} & set(re.findall("[A-Z]+", str(raised.value)))


def test_retry_after(faulty: FaultyPrometheus, fake: RemoteWriter) -> None:
    told: dict[str, float | None] = {"7": 7.0, "0": 0.0, "9" * 400: math.inf}
    told |= dict.fromkeys(["", "-1", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT"])
    for header, seconds in told.items():
        faulty.faults.append(answers(429, Retry_After=header))
        with pytest.raises(UnavailableError) as raised:
            send(fake)
        assert raised.value.retry_after == seconds


def outcomes(registry: CollectorRegistry, name: str) -> dict[str, float]:
    [family] = [f for f in registry.collect() if f.name == name]
    samples = [sample for sample in family.samples if sample.name == f"{name}_total"]
    return {sample.labels["outcome"]: sample.value for sample in samples}


def test_samples_are_counted_by_outcome(run: Run, shared_prometheus: PrometheusServer) -> None:
    now, registry = int(time.time()) - 1, CollectorRegistry()
    foreign = {"__name__": "mlbench_run_metric", "run_id": str(run.id), "rank": "0", "metric": "a"}
    writer = RemoteWriter(shared_prometheus.url, metrics=WriterMetrics(registry))
    send(writer, TimeSeries(foreign, [(now * 1000, -1.0)]))
    record(run, line(now, a=1, b=2, c="text") + line(now + 0.1, a=3))
    Recording.to(writer).run_all()
    writer.close()
    samples = outcomes(registry, "mlbench_writer_samples")
    assert samples == {"accepted": 2, "record_only": 1, "refused": 1}
    posts = outcomes(registry, "mlbench_writer_requests")
    assert (posts["accepted"], posts["unavailable"]) == (2, 0)
    assert posts["refused"] > 0
    assert registry.get_sample_value("mlbench_writer_request_seconds_count") == sum(posts.values())
    success = registry.get_sample_value("mlbench_writer_success_timestamp_seconds")
    assert success == pytest.approx(time.time(), abs=30)
