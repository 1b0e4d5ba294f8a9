"""How a request is found in what arrives, and for how long a client is waited for."""

import json
import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from mlbench_master.serving.bulkheads import Bulkhead
from mlbench_master.serving.connection import (
    MIN_BYTES_PER_SECOND,
    STALL_SECONDS,
    Connection,
    TransferRate,
    WaitingConnections,
)

CONFIG = Config()
STREAM = "PUT /api/runs/7/ranks/0/stdout HTTP/1.1"


def test_a_client_must_keep_the_pace() -> None:
    silent, steady, slow = TransferRate(), TransferRate(), TransferRate()
    assert silent.timeout == STALL_SECONDS == 10
    silent.waited = 9
    assert silent.timeout == 1
    steady.moved, steady.waited = 10_000 * MIN_BYTES_PER_SECOND, 10_000
    assert steady.timeout == STALL_SECONDS, "it may not stall, however much it has moved"
    for _ in range(11):
        assert slow.timeout > 0
        slow.moved += 1
        slow.waited += 1
    assert slow.timeout <= 0, "a byte now and then is too little"


@pytest.fixture
def pairs() -> Iterator[list[tuple[Connection, socket.socket]]]:
    """Connections of the master, each with its client's end."""
    sockets = [socket.socketpair() for _ in range(3)]
    yield [(Connection(ours), theirs) for ours, theirs in sockets]
    for pair in sockets:
        for end in pair:
            end.close()


@pytest.fixture
def pair(pairs: list[tuple[Connection, socket.socket]]) -> tuple[Connection, socket.socket]:
    return pairs[0]


def head(first: str, *lines: str) -> bytes:
    return "\r\n".join([first, "Host: here", *lines, "", ""]).encode()


def test_a_head_that_is_not_whole_is_waited_for(pair: tuple[Connection, socket.socket]) -> None:
    conn, client = pair
    for byte in head("GET /healthz HTTP/1.1"):
        assert conn.request is None
        client.send(bytes([byte]))
        assert conn.receive() == 1
        is_whole = conn.find_request(CONFIG)
    assert is_whole
    assert conn.bulkhead is Bulkhead.PROBES


@pytest.mark.parametrize("name", ["Content-Length", "content-length", "CONTENT-LENGTH"])
def test_a_body_is_waited_for(pair: tuple[Connection, socket.socket], name: str) -> None:
    conn, client = pair
    client.send(head(STREAM, f"{name}:  5 ") + b"hell")
    conn.receive()
    assert not conn.find_request(CONFIG)
    client.send(b"o" + head("GET /next HTTP/1.1"))
    conn.receive()
    assert conn.find_request(CONFIG)
    assert conn.request
    assert conn.request.path == "/api/runs/7/ranks/0/stdout"
    assert conn.bulkhead is Bulkhead.STREAMS
    assert conn.request.body
    assert conn.request.body.read() == b"hello"


def test_a_body_that_is_not_read_is_no_part_of_the_next_request(
    pair: tuple[Connection, socket.socket],
) -> None:
    conn, client = pair
    body = head("GET /smuggled HTTP/1.1")
    client.send(head(STREAM, f"Content-Length: {len(body)}") + body + head("GET /next HTTP/1.1"))
    conn.receive()
    assert conn.find_request(CONFIG)
    conn.end_request()
    assert conn.find_request(CONFIG)
    assert conn.request
    assert conn.request.path == "/next"


@pytest.mark.parametrize(
    "lines",
    [
        ["Transfer-Encoding: chunked"],
        ["Content-Length: 5", "Expect: 100-continue"],
        [f"Content-Length: {(4 << 20) + 1}"],
    ],
)
def test_a_body_that_cannot_be_waited_for_is_left_to_threads_of_its_own(
    pair: tuple[Connection, socket.socket], lines: list[str]
) -> None:
    conn, client = pair
    client.send(head(STREAM, *lines))
    conn.receive()
    assert conn.find_request(CONFIG)
    assert conn.bulkhead is Bulkhead.SLOW


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: here\n\n\r\n\r\n", 400),
        (head(STREAM, "Content-Length: 5", "Content-Length: 6"), 400),
        (head(STREAM, "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
        (head(STREAM, "Content-Length: " + "9" * 5_000), 400),
        (head(STREAM, "Content-Length: \u00b2"), 400),
        (head(STREAM, "Content-Length: -1"), 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (64 << 10), 431),
    ],
)
def test_a_malformed_head_is_refused(
    pair: tuple[Connection, socket.socket], request_: bytes, status: int
) -> None:
    conn, client = pair
    client.send(request_)
    while conn.receive():
        pass
    assert not conn.find_request(CONFIG)
    assert conn.is_sending
    assert conn.flush()
    first, _, body = client.recv(1 << 16).partition(b"\r\n\r\n")
    assert first.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(body)["status"] == status


def test_the_longest_wait_is_closed_first_and_agents_last(
    pairs: list[tuple[Connection, socket.socket]],
) -> None:
    agents, first, second = (conn for conn, _ in pairs)
    agents.is_agents = True
    waiting = WaitingConnections()
    for connection in (agents, first, second):
        waiting.put(connection)
    order = []
    while (longest := waiting.first()) is not None:
        order.append(longest)
        waiting.take(longest)
    assert order == [first, second, agents]


def test_the_memory_of_waiting_connections_is_counted(
    pairs: list[tuple[Connection, socket.socket]],
) -> None:
    (first, _), (second, _), _ = pairs
    waiting = WaitingConnections()
    first.arrived += b"12345"
    waiting.put(first)
    waiting.put(second)
    second.arrived += b"67"
    waiting.put(second)
    assert waiting.held == 7
    waiting.take(first)
    waiting.take(first)
    assert waiting.held == 2
