"""A real HTTP server in front of a cluster's API, or of a small stand-in, that can make it fail."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """What is answered instead of what is right."""

    status: int = 0
    """0: nothing, the connection is cut."""
    message: str = "made to fail"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_seconds: float = 0.0
    after: bool = False
    """Whether the cluster does what it is asked, and only its answer is lost."""


@dataclass(frozen=True)
class Request:
    """What a client asks."""

    verb: str
    """As Kubernetes calls it: a GET with ``watch`` is a WATCH."""
    path: str
    query: Mapping[str, str]
    body: bytes
    content: str

    @property
    def kind(self) -> str:
        """What it is about: pods, services, statefulsets or deployments."""
        return self.path.split("/namespaces/")[1].split("/")[1]


Answer = tuple[int, Iterator[bytes]]
Backend = Callable[[Request], Answer]
Spoiler = Callable[[Request], Fault | None]


@dataclass
class Proxy:
    """A server that lets requests through unless it is told to spoil them."""

    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The verb and kind of every request, in order."""
    spoil: Spoiler = lambda request: None

    def write_config(self, path: Path) -> None:
        """Write what leads a client here."""
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        config = {
            "clusters": [cluster],
            "contexts": [context],
            "users": [{"name": "u", "user": {}}],
        }
        path.write_text(json.dumps({**config, "current-context": "x"}))


@contextmanager
def serve(backend: Backend) -> Iterator[Proxy]:
    """Serve a backend's answers on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            verb = "WATCH" if "watch" in query else self.command
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            content = self.headers.get("Content-Type") or ""
            request = Request(verb, address.path, query, body, content)
            proxy.asked.append((verb, request.kind))
            fault = proxy.spoil(request)
            if fault is None:
                self.answer(*backend(request))
                return
            if fault.after:
                list(backend(request)[1])
            time.sleep(fault.hang_seconds)
            if fault.status:
                status = {"kind": "Status", "message": fault.message}
                self.answer(fault.status, iter([json.dumps(status).encode()]), fault.headers)
            self.close_connection = True

        do_GET = do_PATCH = do_DELETE = handle_any  # noqa: N815 - http.server's names

        def answer(
            self, status: int, pieces: Iterator[bytes], headers: Mapping[str, str] | None = None
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    proxy = Proxy(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
