"""A load generator in a process of its own: keep-alive clients that send prepared bytes."""

import json
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

_HOST = "127.0.0.1"
_PATIENCE_SECONDS = 60.0

Requests = Sequence[bytes]


def post_json(path: str, body: object, headers: Mapping[str, str]) -> bytes:
    """Return a whole request, ready to be sent."""
    data = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {_HOST}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
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
    with selectors.DefaultSelector() as selector:
        connected = [_Client(port, requests, status) for requests in clients]
        begin = time.perf_counter()
        for client in connected:
            if client.send_next():
                selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            ready = selector.select(_PATIENCE_SECONDS)
            assert ready, f"no answer within {_PATIENCE_SECONDS} s"
            for key, _ in ready:
                client = key.data
                if client.receive() and not client.send_next():
                    selector.unregister(client.socket)
        seconds = time.perf_counter() - begin
        for client in connected:
            client.socket.close()
    return seconds


class _Client:
    """One connection, and what is still to be sent on it."""

    def __init__(self, port: int, requests: Requests, status: int) -> None:
        self.socket = socket.create_connection((_HOST, port), timeout=_PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests: Iterator[bytes] = iter(requests)
        self._expected = f"HTTP/1.1 {status} ".encode()
        self._received = b""

    def send_next(self) -> bool:
        """Send the next request; return whether there was one."""
        request = next(self._requests, None)
        if request is not None:
            self.socket.sendall(request)
        return request is not None

    def receive(self) -> bool:
        """Take what has arrived; return whether the answer is complete."""
        received = self.socket.recv(1 << 16)
        self._received += received
        assert received, f"the server hung up after {self._received!r}"
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < _content_length(head):
            return False
        assert head.startswith(self._expected), self._received
        self._received = b""
        return True


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    assert found, head
    return int(rest.partition(b"\r\n")[0])
