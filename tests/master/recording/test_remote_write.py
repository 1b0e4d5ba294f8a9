"""Remote write: the bytes of the message, and what Prometheus's answers mean."""

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

NOW_MS = time.time_ns() // 1_000_000


class Answers:
    """A server that gives every request the answer that it is told to."""

    def __init__(self) -> None:
        self.status, self.text = 204, ""
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                self.send_response(outer.status)
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
    series = TimeSeries({"b": "2", "__name__": "x"}, [(1, 1.0), (-1, 0.5)])
    labels = b"\x0a\x0d\x0a\x08__name__\x12\x01x" + b"\x0a\x06\x0a\x01b\x12\x012"
    first = b"\x12\x0b\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x01"
    second = b"\x12\x14\x09\x00\x00\x00\x00\x00\x00\xe0\x3f\x10" + b"\xff" * 9 + b"\x01"
    content = labels + first + second
    assert encode([series]) == b"\x0a" + bytes([len(content)]) + content
    assert encode([series, series]) == encode([series]) * 2
    assert encode([]) == b""


def test_lengths_past_127_take_two_bytes() -> None:
    message = encode([TimeSeries({"a": "x" * 200}, [])])
    assert message.startswith(b"\x0a\xd1\x01\x0a\xce\x01\x0a\x01a\x12\xc8\x01xxx")


def test_the_request_is_what_the_protocol_asks(answers: Answers, fake: RemoteWriter) -> None:
    series = [TimeSeries({"__name__": "x"}, [(1, 1.0)])]
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


def test_nobody_there_is_unavailable() -> None:
    writer = RemoteWriter(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UnavailableError, match="/api/v1/write"):
        writer.send([])
    writer.close()


def test_prometheus_understands(writer: RemoteWriter, prometheus: PrometheusClient) -> None:
    labels = {"__name__": "written", "text": 'ü "quoted"\n\\ \x00 𝄞', "case": "understands"}
    samples = [(NOW_MS - 2, 1.5), (NOW_MS - 1, float("nan")), (NOW_MS, float("-inf"))]
    writer.send([TimeSeries(labels, samples)])
    [found] = prometheus.query('written{case="understands"}[1m]', (NOW_MS + 1) / 1000)
    assert found.labels == labels
    assert [(round(t * 1000), v) for t, v in found.samples] == [
        (NOW_MS - 2, "1.5"),
        (NOW_MS - 1, "NaN"),
        (NOW_MS, "-Inf"),
    ]


def test_prometheus_refuses_another_value_for_a_time_and_what_is_too_old(
    writer: RemoteWriter,
) -> None:
    labels = {"__name__": "written", "case": "refuses"}
    writer.send([TimeSeries(labels, [(NOW_MS, 1.0)])])
    writer.send([TimeSeries(labels, [(NOW_MS, 1.0)])])
    with pytest.raises(RefusedError):
        writer.send([TimeSeries(labels, [(NOW_MS, 2.0)])])
    with pytest.raises(RefusedError):
        writer.send([TimeSeries(labels, [(NOW_MS - 25 * 3600 * 1000, 1.0)])])


def test_prometheus_that_is_killed_is_unavailable(own_prometheus: PrometheusServer) -> None:
    writer = RemoteWriter(own_prometheus.url)
    series = [TimeSeries({"__name__": "written"}, [(NOW_MS, 1.0)])]
    writer.send(series)
    own_prometheus.kill()
    with pytest.raises(UnavailableError):
        writer.send(series)
    own_prometheus.start()
    writer.send(series)
    writer.close()
