"""A master made for tests, whose clock is 100 s behind: it gives an agent one assignment."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BEHIND_SECONDS = 100.0


@contextmanager
def serving(server: HTTPServer) -> Iterator[None]:
    """Serve in a thread during the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


class Master(BaseHTTPRequestHandler):
    """Gives an agent one assignment, and takes its streams."""

    protocol_version = "HTTP/1.1"
    assignment: dict[str, Any]
    reports: list[dict[str, Any]]
    streams: dict[str, bytes]

    def do_POST(self) -> None:
        """Answer a poll."""
        report = json.loads(self._body())
        self.reports.append(report)
        shipped = all(
            len(self.streams.get(name, b"")) == size
            for name, size in report.get("sizes", {"": 1}).items()
        )
        do = "start" if len(self.reports) == 1 else "stop" if shipped else "wait"
        self._answer(
            {
                "do": do,
                "next_poll_seconds": 0.05,
                "time": time.time() - BEHIND_SECONDS,
                "assignment": self.assignment if do == "start" else None,
            }
        )

    def do_PUT(self) -> None:
        """Take a piece of a stream."""
        url = urlsplit(self.path)
        name, [offset] = url.path.rpartition("/")[2], parse_qs(url.query)["offset"]
        held = self.streams.get(name, b"")
        self.streams[name] = held[: int(offset)] + self._body()
        self._answer({"offset": len(self.streams[name]), "next_ship_seconds": 0.1})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
