"""Remote write: the bytes of the message, and what Prometheus's answers mean."""

import math
import random
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import cramjam
import pytest

from master.reading.promql import PrometheusClient
from master.recording.remote_write import (
    RefusedError,
    RemoteWriter,
    TimeSeries,
    UnavailableError,
    encode,
)
from tests.conftest import PrometheusServer, free_port
from tests.master.making import time_series
from tests.master.recording.places import decode

NOW_MS = time.time_ns() // 1_000_000


class Answers:
    """A server that gives every request the answer that it is told to."""

    def __init__(self) -> None:
        self.status, self.text = 204, ""
        self.retry_after: str | None = None
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                self.send_response(outer.status)
                if outer.retry_after is not None:
                    self.send_header("Retry-After", outer.retry_after)
                self.end_headers()
                self.wfile.write(outer.text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def answers() -> Iterator[Answers]:
    answers = Answers()
    thread = threading.Thread(target=answers.server.serve_forever, args=(0.01,))
    thread.start()
    yield answers
    answers.server.shutdown()
    answers.server.server_close()
    thread.join()


@pytest.fixture
def fake(answers: Answers) -> Iterator[RemoteWriter]:
    writer = RemoteWriter(f"{answers.url}/")
    yield writer
    writer.close()


def test_the_message_is_protobuf() -> None:
    series = time_series({"b": "2", "__name__": "x"}, [(300, 1.0), (-1, 0.5)])
    labels = b"\x0a\x0d\x0a\x08__name__\x12\x01x" + b"\x0a\x06\x0a\x01b\x12\x012"
    first = b"\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xac\x02"
    second = b"\x12\x14\x09\x00\x00\x00\x00\x00\x00\xe0\x3f\x10" + b"\xff" * 9 + b"\x01"
    content = labels + first + second
    assert encode([series]) == b"\x0a" + bytes([len(content)]) + content
    assert encode([series, series]) == encode([series]) * 2
    assert encode([]) == b""


def test_lengths_past_127_take_two_bytes() -> None:
    message = encode([time_series({"a": "x" * 200}, [])])
    assert message.startswith(b"\x0a\xd1\x01\x0a\xce\x01\x0a\x01a\x12\xc8\x01xxx")


TIMES = [0, 1, 127, 128, 129, 16_383, 16_384, 2**31, 1_763_683_200_123, 2**56 - 1, 2**56, 2**63 - 1]


@pytest.mark.parametrize("at", [*TIMES, *(-1 - ms for ms in TIMES)])
def test_any_time_is_read_as_it_was_written(at: int) -> None:
    labels = {"__name__": "x", "ü": "𝄞\n", "long": "y" * 20_000}
    assert decode(encode([TimeSeries(labels, [at], [0.1])])) == [(labels, [(at, 0.1)])]


def test_many_series_are_read_as_they_were_written() -> None:
    dice = random.Random(1)  # noqa: S311 - dice, not secrets
    series = []
    for i in range(50):
        # Steps of less and of more than 128 ms, also across 1970.
        points = [(-5_000 + step * (1 + i), dice.gauss() * 10**i) for step in range(200)]
        series.append(({"__name__": "x", "i": str(i)}, points))
    series.append(({"__name__": "empty"}, []))
    message = encode([time_series(labels, points) for labels, points in series])
    assert decode(message) == series


def test_what_is_no_finite_number_keeps_its_bits() -> None:
    values = [math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, math.nan]
    [(_, points)] = decode(encode([TimeSeries({}, list(range(6)), values)]))
    assert [struct.pack("<d", value) for _, value in points] == [
        struct.pack("<d", value) for value in values
    ]


def test_columns_of_different_lengths_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="shorter"):
        encode([TimeSeries({}, [1, 2], [1.0])])


@pytest.mark.parametrize("samples", [2, 3, 8])
def test_two_halves_are_the_whole(samples: int) -> None:
    points = [(NOW_MS + i, i / 3) for i in range(samples)]
    whole = time_series({"__name__": "x"}, points)
    halves = whole.halves()
    assert all(half.labels == whole.labels and len(half.times_ms) > 0 for half in halves)
    both = [point for half in halves for point in zip(half.times_ms, half.values, strict=True)]
    assert both == points


def test_the_request_is_what_the_protocol_asks(answers: Answers, fake: RemoteWriter) -> None:
    series = [time_series({"__name__": "x"}, [(1, 1.0)])]
    fake.send(series)
    assert bytes(cramjam.snappy.decompress_raw(answers.bodies[0])) == encode(series)
    headers = answers.headers[0]
    assert headers["Content-Encoding"] == "snappy"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"


@pytest.mark.parametrize(
    ("status", "text", "error"),
    [
        (400, "duplicate sample for timestamp", RefusedError),
        (500, "too old sample", RefusedError),
        (500, "the disk is full", UnavailableError),
        (503, "starting", UnavailableError),
        (429, "slow down", UnavailableError),
        (404, "remote write receiver is not enabled", UnavailableError),
        (401, "who are you", UnavailableError),
    ],
)
def test_only_what_will_never_pass_is_refused(
    answers: Answers, fake: RemoteWriter, status: int, text: str, error: type[Exception]
) -> None:
    answers.status, answers.text = status, text
    with pytest.raises(error, match=text):
        fake.send([])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("9" * 400, math.inf),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_how_long_to_wait_is_told(
    answers: Answers, fake: RemoteWriter, status: int, header: str | None, seconds: float | None
) -> None:
    answers.status = status
    answers.retry_after = header
    with pytest.raises(UnavailableError) as raised:
        fake.send([])
    assert raised.value.retry_after == seconds


def test_nobody_there_is_unavailable() -> None:
    writer = RemoteWriter(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UnavailableError, match="/api/v1/write"):
        writer.send([])
    writer.close()


def test_prometheus_understands(writer: RemoteWriter, prometheus: PrometheusClient) -> None:
    labels = {"__name__": "written", "text": 'ü "quoted"\n\\ \x00 𝄞', "case": "understands"}
    samples = [(NOW_MS - 2, 1.5), (NOW_MS - 1, float("nan")), (NOW_MS, float("-inf"))]
    writer.send([time_series(labels, samples)])
    [found] = prometheus.query('written{case="understands"}[1m]', (NOW_MS + 1) / 1000)
    assert found.labels == labels
    assert [*zip((round(t * 1000) for t in found.times), found.values, strict=True)] == [
        (NOW_MS - 2, "1.5"),
        (NOW_MS - 1, "NaN"),
        (NOW_MS, "-Inf"),
    ]


def test_prometheus_refuses_another_value_for_a_time_and_what_is_too_old(
    writer: RemoteWriter,
) -> None:
    labels = {"__name__": "written", "case": "refuses"}
    writer.send([time_series(labels, [(NOW_MS, 1.0)])])
    writer.send([time_series(labels, [(NOW_MS, 1.0)])])
    with pytest.raises(RefusedError):
        writer.send([time_series(labels, [(NOW_MS, 2.0)])])
    with pytest.raises(RefusedError):
        writer.send([time_series(labels, [(NOW_MS - 25 * 3600 * 1000, 1.0)])])


def test_prometheus_that_is_killed_is_unavailable(own_prometheus: PrometheusServer) -> None:
    writer = RemoteWriter(own_prometheus.url)
    series = [time_series({"__name__": "written"}, [(NOW_MS, 1.0)])]
    writer.send(series)
    own_prometheus.kill()
    with pytest.raises(UnavailableError):
        writer.send(series)
    own_prometheus.start()
    writer.send(series)
    writer.close()
