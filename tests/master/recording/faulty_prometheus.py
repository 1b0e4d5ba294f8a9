"""A server in front of the real Prometheus that lets writes fail in the ways that they do fail."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cramjam
import httpx

from tests.support.places import decode


class Exchange(BaseHTTPRequestHandler):
    """One request, and what a fault can do about it."""

    server: "FaultyPrometheus"
    body: bytes

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(time.monotonic(), self.body, dict(self.headers))
        self.server.requests.append(request)
        fault = self.server.faults.pop(0) if self.server.faults else pass_on
        fault(self)
        request.answered_at = time.monotonic()

    def answer(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def forward(self) -> httpx.Response:
        """Let Prometheus have the request, and return its answer."""
        headers = {name: self.headers[name] for name in ("Content-Encoding", "Content-Type")}
        return httpx.post(self.server.target + self.path, content=self.body, headers=headers)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Fault = Callable[[Exchange], None]


def pass_on(exchange: Exchange) -> None:
    """No fault at all."""
    answer = exchange.forward()
    exchange.answer(answer.status_code, answer.text, {})


def answers(status: int, text: str = "", **headers: str) -> Fault:
    """Answer for Prometheus, which never sees the request. ``_`` in a header's name is ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.answer(status, text, named)


def hang(exchange: Exchange) -> None:
    """Take the request and never answer."""
    exchange.server.closing.wait()


def cut(exchange: Exchange) -> None:
    """Close the connection without an answer; Prometheus never sees the request."""


def store_and_cut(exchange: Exchange) -> None:
    """Let Prometheus store the request, and close the connection without an answer."""
    assert exchange.forward().is_success


def store_and_hang(exchange: Exchange) -> None:
    """Let Prometheus store the request, and never answer."""
    assert exchange.forward().is_success
    hang(exchange)


def store_and_fail(exchange: Exchange) -> None:
    """Let Prometheus store the request, and say that it failed."""
    assert exchange.forward().is_success
    exchange.answer(500, "who knows", {})


def talk_nonsense(exchange: Exchange) -> None:
    """Answer what is no HTTP."""
    exchange.wfile.write(b"\x00\xffSSH-2.0 hello\r\n\r\n")


def break_off(exchange: Exchange) -> None:
    """Announce a longer answer than there is."""
    exchange.answer(500, "half", {"Content-Length": "1000"})


@dataclass
class Request:
    """A write that arrived: when, when it was answered, and what was in it."""

    at: float
    body: bytes
    headers: dict[str, str]
    answered_at: float | None = None

    @property
    def series(self) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
        """Labels, and (milliseconds, value) in the order in which they were sent."""
        return decode(bytes(cramjam.snappy.decompress_raw(self.body)))


class FaultyPrometheus(ThreadingHTTPServer):
    """Passes writes on, but for those that a fault is planned for: the next ones, in order."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.target = target
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()
        self._thread.join()
