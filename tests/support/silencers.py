"""Ways to occupy a server with connections that never complete a request."""

import re
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import httpx

from mlbench.local.home import Home


def half_head() -> bytes:
    return b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: "


def half_body(path: str = "/api/runs", token: str = "") -> bytes:
    return _post(path, token, "Content-Length: 9999") + b'{"name": '


def endless_body(token: str = "") -> bytes:
    return _post("/api/runs", token, "Transfer-Encoding: chunked") + b"9999\r\n{"


def _post(path: str, token: str, length: str) -> bytes:
    authorization = [f"Authorization: Bearer {token}"] if token else []
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *authorization, length, "", ""]
    return "\r\n".join(lines).encode()


def never_read(url: str) -> bytes:
    """Return requests for the largest file of the web pages, 3 MB in total."""
    page = httpx.get(f"{url}/signin", timeout=30).text
    match = re.search(r"/static/[0-9a-f]+/", page)
    assert match
    request = f"GET {match[0]}vendor/uPlot.esm.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    return 20 * request.encode()


@contextmanager
def occupied(url: str, requests: Sequence[bytes]) -> Iterator[None]:
    """Open a connection for each of these requests, and then neither send nor read.

    A connection that the server closes is opened again.
    """
    address = httpx.URL(url)
    over = threading.Event()

    def hold(request: bytes) -> None:
        while not over.is_set():
            with suppress(OSError), socket.socket() as opened:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                opened.settimeout(5)
                opened.connect((address.host, address.port or 80))
                opened.sendall(request)
                while not over.wait(0.5) and not _is_ended(opened):
                    pass
            over.wait(0.1)

    threads = [threading.Thread(target=hold, args=(request,), daemon=True) for request in requests]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _is_ended(opened: socket.socket) -> bool:
    """Return whether the server has closed its side or sent a timeout, without consuming data."""
    opened.setblocking(False)
    try:
        return b"408" in opened.recv(64, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def oldest_answer(home: Home, seconds: float) -> float:
    """Return the longest silence of a worker, in seconds, during the next ``seconds``."""
    oldest, deadline = 0.0, time.monotonic() + seconds
    with closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as opened:
        while time.monotonic() < deadline:
            [(heard_at,)] = opened.execute("SELECT MIN(seen_at) FROM worker").fetchall()
            oldest = max(oldest, time.time() - heard_at)
            time.sleep(0.1)
    return oldest
