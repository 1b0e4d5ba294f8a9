"""A load generator in a separate process: keep-alive clients that send prepared bytes."""

import json
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context

_HOST = "127.0.0.1"

Requests = Sequence[bytes]


def post_json(path: str, body: object, headers: Mapping[str, str]) -> bytes:
    """Return a whole request, ready to be sent."""
    data = json.dumps(body).encode()
    about = {"Content-Type": "application/json", "Content-Length": len(data), **headers}
    fields = (f"{name}: {value}" for name, value in about.items())
    lines = [f"POST {path} HTTP/1.1", f"Host: {_HOST}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def send(port: int, clients: Sequence[Requests], status: int) -> float:
    """Send each client's requests in order, each once the one before is answered.

    Returns:
        Requests a second, of all clients together.

    Raises:
        AssertionError: an answer has another status.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds = pool.submit(_send, port, clients, status).result()
    return sum(map(len, clients)) / seconds


def _send(port: int, clients: Sequence[Requests], status: int) -> float:
    with ExitStack() as stack, ThreadPoolExecutor(len(clients)) as threads:
        sockets = []
        for _ in clients:
            connection = socket.create_connection((_HOST, port), timeout=60.0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.append(stack.enter_context(connection))
        begin = time.perf_counter()
        futures = [
            threads.submit(_send_all, connection, requests, f"HTTP/1.1 {status} ".encode())
            for connection, requests in zip(sockets, clients, strict=True)
        ]
        for future in futures:
            future.result()
        return time.perf_counter() - begin


def _send_all(connection: socket.socket, requests: Requests, status_line: bytes) -> None:
    for request in requests:
        connection.sendall(request)
        response = b""
        is_complete = False
        while not is_complete:
            received = connection.recv(1 << 16)
            response += received
            assert received, f"the server hung up after {response!r}"
            head, end, body = response.partition(b"\r\n\r\n")
            length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
            is_complete = bool(end) and len(body) >= int(length)
        assert response.startswith(status_line), response
