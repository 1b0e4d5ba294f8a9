"""Gunicorn with MLBench's worker class, tested through HTTP clients."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

from mlbench.contract.records import Error
from tests.conftest import free_port, wait_for
from tests.master.serving.app import LARGE

CONNECTIONS = 20
_STREAM = b"PUT /api/runs/7/ranks/0/stdout HTTP/1.1\r\n"
_MALFORMED = {
    b"hello\r\n\r\n": 400,
    b"\r\n\r\n": 400,
    b"GET /healthz HTTP/9.9\r\n\r\n": 400,
    b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n": 400,
    b"GET /healthz HTTP/1.1\r\nBad Name: x\r\n\r\n": 400,
    b"GET / HTTP/1.1\nHost: here\n\n\r\n\r\n": 400,
    _STREAM + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n": 400,
    _STREAM + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
    _STREAM + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n": 400,
    _STREAM + b"Content-Length: \xc2\xb2\r\n\r\n": 400,
    _STREAM + b"Content-Length: -1\r\n\r\n": 400,
    _STREAM + b"Transfer-Encoding: unheard-of\r\n\r\n": 501,
    b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n": 414,
    b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 200 + b"\r\n": 431,
    b"GET / HTTP/1.1\r\nX: " + b"x" * (64 << 10): 431,
}


@contextmanager
def serving() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run gunicorn with room for 20 connections; yield its port and process."""
    number = free_port()
    command = [sys.executable, "-m", "gunicorn", "--config", "python:mlbench_master.gunicorn_conf"]
    command += ["--bind", f"127.0.0.1:{number}", "--worker-connections", str(CONNECTIONS)]
    # Heartbeats fail, because this app has no database.
    process = subprocess.Popen([*command, "tests.master.serving.app:app"], stderr=subprocess.PIPE)

    def answers() -> bool:
        with suppress(OSError):
            return ask(number, b"GET /up HTTP/1.0\r\n\r\n").endswith(b"/up ")
        return False

    wait_for(answers, what="a response of gunicorn")
    yield number, process
    process.terminate()
    process.communicate()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (number, _):
        yield number


def connect(port: int, receive_buffer: int | None = None) -> socket.socket:
    opened = socket.socket()
    try:
        if receive_buffer:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        opened.settimeout(20)
        opened.connect(("127.0.0.1", port))
    except OSError:
        opened.close()
        raise
    return opened


def ask(port: int, request: bytes) -> bytes:
    """Send a request and read until the server closes the connection."""
    with connect(port) as opened:
        opened.sendall(request)
        return read_all(opened)


def read_all(opened: socket.socket) -> bytes:
    return b"".join(iter(lambda: opened.recv(1 << 16), b""))


def poll(opened: socket.socket) -> int:
    """Send a poll and return the status of the response."""
    opened.sendall(b"POST /api/workers/w-0/poll HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
    answer = http.client.HTTPResponse(opened)
    answer.begin()
    answer.read()
    return answer.status


def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    requests = [
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none",
        b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n",
    ]
    answers = ask(port, b"".join(requests))
    found = [answers.find(text) for text in (b"/a one", b"/b ", b"/c two")]
    assert 0 < found[0] < found[1] < found[2]


def test_a_request_can_arrive_in_many_pieces(port: int) -> None:
    with connect(port) as opened:
        for byte in b"POST /a HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello":
            opened.sendall(bytes([byte]))
            time.sleep(0.002)
        assert read_all(opened).endswith(b"/a hello")


@pytest.mark.parametrize("path", ["/large", "/pieces"])
def test_a_slow_reader_gets_the_complete_response(port: int, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    with closing(connection):
        connection.sock = connect(port, receive_buffer=32 << 10)
        connection.request("GET", path)
        answer = connection.getresponse()
        pieces = []
        while piece := answer.read(1 << 20):
            pieces.append(piece)
            time.sleep(0.1)
        assert b"".join(pieces) == LARGE
        connection.request("GET", "/next")
        assert connection.getresponse().read() == b"/next "


def test_a_broken_response_is_recognizable(port: int) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/breaks")
        answer = connection.getresponse()
        assert answer.status == 200
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_malformed_http_is_answered_in_json(port: int) -> None:
    for request, status in _MALFORMED.items():
        head, _, body = ask(port, request).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode()), request[:80]
        assert b"Content-Type: application/json" in head
        error = Error.from_fields(json.loads(body))
        assert (error.status, bool(error.message)) == (status, True)


def test_errors_of_the_app_are_answered_in_json(port: int) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/fails")
        answer = connection.getresponse()
        assert answer.status == 500
        assert json.loads(answer.read())["status"] == 500


def test_expect_100_continue(port: int) -> None:
    with connect(port) as opened:
        opened.sendall(b"POST /a HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert opened.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        opened.sendall(b"hello")
        assert read_all(opened).endswith(b"/a hello")


def test_active_requests_are_answered_at_shutdown() -> None:
    with serving() as (number, process), connect(number) as opened:
        opened.sendall(b"GET /late HTTP/1.1\r\n\r\n")
        time.sleep(0.1)
        process.terminate()
        answer = read_all(opened)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"/late ")
        opened.close()
        assert process.wait(10) == 0


@pytest.mark.slow
def test_an_incomplete_request_head_times_out(port: int) -> None:
    began = time.monotonic()
    answer = ask(port, b"GET / HTTP/1.1\r\n")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'{"status": 408, "message": ' in answer
    assert time.monotonic() - began < 8


def test_idle_connections_are_closed_at_the_limit_agents_last(port: int) -> None:
    with ExitStack() as stack:
        agent = stack.enter_context(connect(port))
        assert poll(agent) == 200
        idle = [stack.enter_context(connect(port)) for _ in range(3 * CONNECTIONS)]
        assert ask(port, b"GET /up HTTP/1.0\r\n\r\n").endswith(b"/up ")
        assert poll(agent) == 200, "the agent's connection must stay open"
        assert idle[0].recv(1) == b"", "the connection that was idle longest must be closed"


def test_a_client_that_never_disconnects_delays_no_other(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(5):
            opened = stack.enter_context(connect(port))
            opened.sendall(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert opened.recv(12) == b"HTTP/1.1 200"
        began = time.monotonic()
        assert ask(port, b"GET /up HTTP/1.0\r\n\r\n").endswith(b"/up ")
        assert time.monotonic() - began < 2
