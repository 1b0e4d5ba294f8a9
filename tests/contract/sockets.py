"""Requests as bytes on a socket, for what no HTTP client would send."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse

import httpx

from mlbench.local.home import StackConnection


def head(
    connection: StackConnection, method: str, path: str, *lines: str, host: str | None = None
) -> bytes:
    """Return a request up to its body; the host is the master's own if none is given."""
    own = httpx.URL(connection.url).netloc.decode()
    return "\r\n".join(
        [
            f"{method} {path} HTTP/1.1",
            f"Host: {own if host is None else host}",
            f"Authorization: Bearer {connection.token}",
            *lines,
            "\r\n",
        ]
    ).encode()


@contextmanager
def connect(connection: StackConnection) -> Iterator[socket.socket]:
    url = httpx.URL(connection.url)
    with socket.create_connection((url.host, url.port or 80), timeout=20) as opened:
        yield opened


def answer(opened: socket.socket, method: str = "GET") -> HTTPResponse:
    """Return the next answer on a connection; its body is still to be read."""
    response = HTTPResponse(opened, method=method)
    response.begin()
    return response
