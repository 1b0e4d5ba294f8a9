"""HTTP requests as raw bytes, for requests that no HTTP client would send."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse

import httpx

from mlbench.local.home import StackConnection


def head(
    connection: StackConnection, method: str, path: str, *lines: str, host: str | None = None
) -> bytes:
    """Return the head of a request. The host defaults to the master's address."""
    own_host = httpx.URL(connection.url).netloc.decode()
    return "\r\n".join(
        [
            f"{method} {path} HTTP/1.1",
            f"Host: {own_host if host is None else host}",
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
    """Return the next response on a connection. Its body has not been read yet."""
    response = HTTPResponse(opened, method=method)
    response.begin()
    return response
