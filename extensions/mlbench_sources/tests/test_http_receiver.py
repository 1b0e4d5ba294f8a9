"""The loopback server, tested with real connections."""

import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

import httpx
import pytest

from mlbench_sources import callers
from mlbench_sources import http_receiver as loopbacks
from mlbench_sources.http_receiver import (
    HttpReceiver,
    ReceiverRequest,
    ReceiverResponse,
    no_proxy_for,
)
from mlbench_worker.agent.sources import Line
from tests.conftest import wait_for
from tests.support.processes import run_text


class Sink:
    """A route that collects its requests, and the lines that the server appends."""

    def __init__(self) -> None:
        self.requests: list[ReceiverRequest] = []
        self.lines: list[Line] = []
        self.words: list[str] = []
        self.full = False

    def route(self, request: ReceiverRequest) -> ReceiverResponse | None:
        self.requests.append(request)
        if request.path != "/say":
            return None
        return ReceiverResponse(
            {"heard": len(self.requests)}, lines=[request.fields()], words="heard"
        )

    def append(self, lines: Sequence[Line]) -> None:
        if self.full:
            raise OSError("no space left")
        self.lines += lines


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def loopback(sink: Sink) -> Iterator[HttpReceiver]:
    server = HttpReceiver([sink.route], sink.append, sink.words.append)
    yield server
    server.close()


def connect(loopback: HttpReceiver) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(loopback.url.removeprefix("http://"), timeout=60)


def address_of(loopback: HttpReceiver) -> tuple[str, int]:
    return "127.0.0.1", int(loopback.url.rpartition(":")[2])


def call(
    connection: http.client.HTTPConnection, token: str, body: bytes = b"{}", path: str = "/say"
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_lines_are_appended_before_the_response(loopback: HttpReceiver, sink: Sink) -> None:
    with closing(connect(loopback)) as connection:
        assert call(connection, loopback.token, b'{"a": 1}') == (200, {"heard": 1})
        assert sink.lines == [{"a": 1}]
        used = connection.sock
        assert call(connection, loopback.token, b'{"a": 2}') == (200, {"heard": 2})
        assert connection.sock is used, "the connection must stay open"
    assert sink.words == ["heard"], "the same words must be logged once"


def test_the_token_is_accepted_as_a_password(loopback: HttpReceiver) -> None:
    url = loopback.url.replace("//", f"//anyone:{loopback.token}@")
    assert httpx.post(f"{url}/say", json={}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/say", b"[", 400, "the body must be JSON"),
        ("/say", b"[1]", 400, "the body must be a JSON object"),
        ("/say", b"[" * 100_000, 400, "nested too deeply"),
        ("/say", b" " * (9 << 20), 400, "at most 8 MiB"),
        ("/else", b"{}", 404, "there is nothing at POST /else"),
    ],
)
def test_an_error_has_a_message_and_keeps_the_connection_open(
    loopback: HttpReceiver, sink: Sink, path: str, body: bytes, status: int, said: str
) -> None:
    with closing(connect(loopback)) as connection:
        found, answer = call(connection, loopback.token, body, path)
        assert (found, said in answer["message"]) == (status, True), answer
        assert call(connection, loopback.token)[0] == 200
    assert sink.lines == [{}]


def test_a_request_without_the_token_is_refused(loopback: HttpReceiver, sink: Sink) -> None:
    with closing(connect(loopback)) as connection:
        status, answer = call(connection, "guessed", b'{"a": 1}')
        assert (status, "needs the token" in answer["message"]) == (401, True)
    assert not sink.requests


def test_requests_of_an_exited_process_are_handled(
    loopback: HttpReceiver, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even on connections that the server had not accepted yet."""
    monkeypatch.setattr(loopbacks, "_PATIENCE_SECONDS", 60.0)
    body = b'{"a": 1}'
    request = (
        f"POST /say HTTP/1.1\r\nAuthorization: Bearer {loopback.token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    address = address_of(loopback)
    for _ in range(20):
        with socket.create_connection(address) as gone:
            gone.sendall(request)
    loopback.close()
    assert sink.lines == [{"a": 1}] * 20
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_refused_calls_are_counted(loopback: HttpReceiver, sink: Sink) -> None:
    with closing(connect(loopback)) as connection:
        assert call(connection, loopback.token)[0] == 200
        assert call(connection, loopback.token, b"[")[0] == 400
        assert call(connection, "wrong")[0] == 401
        assert call(connection, loopback.token, path="/else")[0] == 404
        sink.full = True
        told = {
            "error_code": "INSUFFICIENT_STORAGE",
            "message": "it cannot be recorded: no space left",
        }
        assert call(connection, loopback.token) == (507, told)
    assert loopback.not_recorded == {"refused_calls": 2, "unanswered_calls": 0}


def test_interrupted_calls_and_timeouts_are_counted(
    loopback: HttpReceiver, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopbacks, "_PATIENCE_SECONDS", 0.2)
    head = f"POST /say HTTP/1.1\r\nAuthorization: Bearer {loopback.token}\r\nContent-Length: 9\r\n"
    with (
        socket.create_connection(address_of(loopback)),  # idle, like a connection in a pool
        socket.create_connection(address_of(loopback)) as slow,
        socket.create_connection(address_of(loopback)) as broken,
    ):
        slow.sendall(head.encode())
        broken.sendall(f"{head}\r\n{{".encode())
        broken.shutdown(socket.SHUT_WR)
        wait_for(lambda: loopback.not_recorded["unanswered_calls"] == 2, what="both are counted")
        time.sleep(0.5)
    assert loopback.not_recorded == {"refused_calls": 0, "unanswered_calls": 2}
    assert sink.lines == []


def test_slow_connections_are_closed_so_that_others_are_accepted(
    loopback: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopbacks, "_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(loopbacks, "_MAX_CONNECTIONS", 16)
    with ExitStack() as dripping:
        opened = (socket.create_connection(address_of(loopback)) for _ in range(16))
        slow = [dripping.enter_context(client) for client in opened]
        began = time.monotonic()
        while time.monotonic() < began + 1.5:
            for client in slow:
                with suppress(OSError):
                    client.send(b"G")
            time.sleep(0.1)
        for client in slow:
            with suppress(ConnectionResetError):  # the last bytes were not read
                assert not client.recv(1), "the connection must be closed"
        with closing(connect(loopback)) as connection:
            assert call(connection, loopback.token)[0] == 200


def test_refused_connections_are_logged(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loopbacks, "_PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(loopbacks, "_MAX_CONNECTIONS", 16)
    server = HttpReceiver([sink.route], sink.append, sink.words.append)
    with ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(socket.create_connection(address_of(server)))
        wait_for(lambda: len(caplog.records) == 4, what="all are accepted or refused")
    server.close()
    [words] = sink.words
    assert words.startswith("4 connections to the server of this run were refused")
    assert server.not_recorded == {"refused_calls": 0, "unanswered_calls": 4}


_HOLD = """
import os, socket, sys
os.setuid(65534)
held = [socket.socket() for _ in range(int(sys.argv[3]))]
refused = 0
for one in held:
    one.bind((sys.argv[2], 0))
    one.connect(("127.0.0.1", int(sys.argv[1])))
for one in held:
    try:
        refused += not one.recv(1)
    except ConnectionResetError:
        refused += 1
print(refused)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("is_available", "source", "count"),
    # Fewer without sock_diag, because each connection then reads a long table.
    [(True, "127.0.0.1", 300), (True, "127.0.0.9", 300), (False, "127.0.0.9", 20)],
)
def test_other_users_of_the_machine_are_refused(
    loopback: HttpReceiver,
    sink: Sink,
    monkeypatch: pytest.MonkeyPatch,
    is_available: bool,
    source: str,
    count: int,
) -> None:
    monkeypatch.setattr(callers, "has_sock_diag", lambda: is_available)
    words = (str(address_of(loopback)[1]), source, str(count))
    hold = [sys.executable, "-c", _HOLD, *words]
    assert run_text(hold, check=True).stdout == f"{count}\n"
    with closing(connect(loopback)) as connection:
        assert call(connection, loopback.token)[0] == 200
    loopback.close()
    assert sink.words == ["heard"]


def test_a_content_length_of_5000_digits_is_refused(loopback: HttpReceiver) -> None:
    with closing(connect(loopback)) as connection:
        connection.putrequest("POST", "/say")
        connection.putheader("Content-Length", "1" * 5000)
        connection.endheaders()
        assert connection.getresponse().status == 411


def test_no_proxy_is_used_for_this_machine() -> None:
    assert no_proxy_for({"no_proxy": "a"}) == {}
    assert no_proxy_for({"https_proxy": "b"}, "c")["NO_PROXY"] == "127.0.0.1,c"
    around = no_proxy_for({"HTTP_PROXY": "http://proxy", "no_proxy": "a,b"})
    assert around == {"no_proxy": "a,b,127.0.0.1", "NO_PROXY": "a,b,127.0.0.1"}
