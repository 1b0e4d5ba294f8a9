"""Parsing of requests on a connection, and timeouts of clients."""

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


def test_clients_need_a_minimum_transfer_rate() -> None:
    silent, steady, slow = TransferRate(), TransferRate(), TransferRate()
    assert silent.timeout == STALL_SECONDS == 10
    silent.waited = 9
    assert silent.timeout == 1
    steady.moved, steady.waited = 10_000 * MIN_BYTES_PER_SECOND, 10_000
    assert steady.timeout == STALL_SECONDS, "the stall limit applies to any amount of data"
    for _ in range(11):
        assert slow.timeout > 0
        slow.moved += 1
        slow.waited += 1
    assert slow.timeout <= 0, "an occasional byte is too slow"


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection of the master, and the client's socket."""
    ours, theirs = socket.socketpair()
    yield Connection(ours), theirs
    ours.close()
    theirs.close()


def head(first: str, *lines: str) -> bytes:
    return "\r\n".join([first, "Host: here", *lines, "", ""]).encode()


@pytest.mark.parametrize("name", ["Content-Length", "content-length", "CONTENT-LENGTH"])
def test_a_request_ends_with_its_body(pair: tuple[Connection, socket.socket], name: str) -> None:
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


def test_an_unread_body_is_not_the_next_request(pair: tuple[Connection, socket.socket]) -> None:
    conn, client = pair
    body = head("GET /smuggled HTTP/1.1")
    client.send(head(STREAM, f"Content-Length: {len(body)}") + body + head("GET /next HTTP/1.1"))
    conn.receive()
    assert conn.find_request(CONFIG)
    conn.end_request()
    assert conn.find_request(CONFIG)
    assert conn.request
    assert conn.request.path == "/next"


CHUNKED, LARGE = "Transfer-Encoding: chunked", f"Content-Length: {(4 << 20) + 1}"
LATER = ["Content-Length: 5", "Expect: 100-continue"]


@pytest.mark.parametrize("lines", [[CHUNKED], [LARGE], LATER])
def test_bodies_of_unknown_or_large_size_use_the_slow_bulkhead(
    pair: tuple[Connection, socket.socket], lines: list[str]
) -> None:
    conn, client = pair
    client.send(head(STREAM, *lines))
    conn.receive()
    assert conn.find_request(CONFIG)
    assert conn.bulkhead is Bulkhead.SLOW


def test_bytes_of_waiting_connections_are_counted(pair: tuple[Connection, socket.socket]) -> None:
    waiting, (conn, _) = WaitingConnections(), pair
    for held in (5, 10):
        conn.arrived += b"12345"
        waiting.put(conn)
        assert waiting.held == held
    for _ in range(2):
        waiting.take(conn)
        assert waiting.held == 0
