"""A small HTTP server that gives scripted responses and records the requests."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext


@dataclass(frozen=True)
class Reply:
    """A response. With status None, the connection is cut after the body, which must be bytes."""

    status: int | None = 200
    body: object = field(default_factory=list)
    """Bytes, an iterator of bytes that are sent as chunks, or a value to send as JSON."""
    headers: tuple[tuple[str, str], ...] = ()
    missing_bytes: int = 0
    """Number of bytes missing from the body, compared with its Content-Length."""
    seconds: float = 0.0
    """Delay before the response, unless the server is hurried."""
    silent_seconds: float = 0.0
    """Silence after the body, unless the server is hurried."""
    hangs_up: bool = False
    """Whether the connection is then closed without notice, as after an idle timeout."""


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The client's port, which identifies the connection."""


@dataclass(frozen=True)
class Scripted:
    port: int
    asked: list[Asked]
    hurry: threading.Event
    """Set this event to skip all delays."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def serving(*replies: Reply) -> AbstractContextManager[Scripted]:
    """Run a server that gives these replies in order, and repeats the last one."""
    remaining = list(replies)
    return answering(lambda request: remaining.pop(0) if len(remaining) > 1 else remaining[0])


@contextmanager
def answering(
    answer: Callable[[Asked], Reply], port: int = 0, tls: SSLContext | None = None
) -> Iterator[Scripted]:
    """Run a server on a port (default: a free one). Calls of ``answer`` are serialized."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = dict(self.headers.items())
            request = Asked(self.command, self.path, headers, body, self.client_address[1])
            with lock:
                script.asked.append(request)
                reply = answer(request)
            script.hurry.wait(reply.seconds)
            with suppress(OSError):  # the client may have disconnected
                self.send(reply)
            script.hurry.wait(reply.silent_seconds)
            cut = reply.status is None or bool(reply.missing_bytes)
            self.close_connection = self.close_connection or cut or reply.hangs_up

        do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def send(self, reply: Reply) -> None:
            if reply.status is None:
                self.wfile.write(reply.body if isinstance(reply.body, bytes) else b"")
                return
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            if isinstance(reply.body, Iterator):
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in itertools.chain(reply.body, [b""]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                return
            plain = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_header("Content-Length", str(len(plain) + reply.missing_bytes))
            self.end_headers()
            self.wfile.write(plain)
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        script = Scripted(server.server_port, [], threading.Event())
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield script
        finally:
            script.hurry.set()
            server.shutdown()
            thread.join()


@contextmanager
def endless() -> Iterator[str]:
    """Run a server whose responses arrive byte by byte and never end; yield its URL."""

    def spaces() -> Iterator[bytes]:
        while True:
            time.sleep(0.1)
            yield b" "

    with answering(lambda _: Reply(body=spaces())) as server:
        yield server.url
