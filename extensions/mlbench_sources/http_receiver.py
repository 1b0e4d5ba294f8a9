"""An HTTP server on this machine's loopback, for clients of other libraries' servers.

It is idle without requests: one thread waits for connections, and each connection has a thread.
"""

import hmac
import io
import json
import logging
import re
import secrets
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mlbench.contract.process import ProcessRank
from mlbench_sources import callers
from mlbench_worker.agent.sources import Line, Sockets

log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_MAX_CONNECTIONS = 256
"""Maximum number of connections, each with a thread. Libraries have about ten per process."""
_MAX_BODY_BYTES = 8 << 20
_PATIENCE_SECONDS = 5.0
"""Time limit for a client to show the token, and for the last requests of ended processes."""


@dataclass(frozen=True)
class ReceiverRequest:
    """A request of a client."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None
    """The body; None if it was too long, and discarded."""

    def fields(self) -> Mapping[str, Any]:
        """Return the JSON object in the body; {} without a body.

        Raises:
            ValueError: the body is not a JSON object, or too long.
        """
        body = self._body() or b"{}"
        try:
            fields = json.loads(body)
        except RecursionError:
            raise ValueError("the body is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"the body must be JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError("the body must be a JSON object")
        return fields

    def form(self) -> Mapping[str, str]:
        """Return the fields of the form in the body.

        Raises:
            ValueError: the body is not text, or too long.
        """
        return dict(parse_qsl(self._body().decode(), keep_blank_values=True))

    def _body(self) -> bytes:
        if self.body is None:
            raise ValueError(f"a request must have at most {_MAX_BODY_BYTES >> 20} MiB")
        return self.body


@dataclass(frozen=True)
class ReceiverResponse:
    """A response in JSON, with lines for the metrics file and a message for the user."""

    body: Mapping[str, object]
    status: int = HTTPStatus.OK
    lines: Sequence[Line] = ()
    words: str = ""
    """Message for the run's log, which is printed once."""


Route = Callable[[ReceiverRequest], ReceiverResponse | None]
"""Responds to a request; returns None if the request is for another route.

A ValueError is sent to the client. Only one request is processed at a time.
"""


class HttpReceiver:
    """A server, which runs until it is closed."""

    def __init__(
        self,
        routes: Sequence[Route],
        append: Callable[[Sequence[Line]], None],
        say: Callable[[str], None],
        sockets: Sockets | None = None,
        root: int | None = None,
    ) -> None:
        """Start the server.

        Args:
            routes: respond to requests, in this order.
            append: writes lines to the metrics file, or raises an OSError.
            say: prints a message in the run's log.
            sockets: sockets in the network of the server; None for this process's network.
            root: the process whose descendants are the clients; None for this process.

        Raises:
            OSError, RuntimeError: out of sockets or threads.
        """
        self.token = secrets.token_urlsafe(24)
        self.root = root
        self._refused_calls = self._unanswered_calls = self._refused = 0
        self._routes = routes
        self._append = append
        self._say = say
        self._printed: set[str] = set()
        self._turn = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._callers: set[ProcessRank] = set()
        self._last_caller: object = None
        self._is_shared = sockets is None  # shared with other users of the machine
        self._listener, self._last = sockets or (socket.socket(), socket.socket())
        self._listener.bind((_HOST, 0))
        self._listener.listen(_MAX_CONNECTIONS)
        self._thread = threading.Thread(target=self._listen, name="loopback", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._listener.close()
            self._last.close()
            raise

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://{_HOST}:{self._listener.getsockname()[1]}"

    @property
    def address(self) -> str:
        """The URL with the token as the password."""
        return self.url.replace("//", f"//mlbench:{self.token}@")

    @property
    def not_recorded(self) -> dict[str, int]:
        """Number of calls that are not recorded, by the fields of ``records.NotRecorded``."""
        unanswered = self._unanswered_calls + self._refused
        return {"refused_calls": self._refused_calls, "unanswered_calls": unanswered}

    def note_unanswered(self) -> None:
        """Count a request that was aborted, or timed out, before it was complete."""
        with self._turn:
            self._unanswered_calls += 1

    def close(self) -> None:
        """Respond to all requests so far, whose processes have ended, and stop."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with suppress(OSError), self._last as last:
            # All earlier connections precede this one in the listener's queue.
            last.bind((_HOST, 0))
            last.settimeout(_PATIENCE_SECONDS)
            self._last_caller = last.getsockname()
            last.connect(self._listener.getsockname())
            self._thread.join(_PATIENCE_SECONDS)
        self._listener.close()
        for thread, connection in list(self._open.items()):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._refused:
            words = f"{self._refused:,} connections to the server of this run were refused"
            self._say(f"{words}: what they would have told is not recorded")

    def answer(
        self, request: ReceiverRequest, caller: ProcessRank | None = None
    ) -> ReceiverResponse:
        """Respond to a request after its lines are written.

        ``caller`` is the process of the client; None for the worker's own rank.
        """
        with self._turn:
            try:
                answers = (route(request) for route in self._routes)
                answer = next((reply for reply in answers if reply is not None), None)
            except ValueError as error:
                # Reads and searches would not have recorded anything.
                is_read = request.method == "GET" or request.path.endswith("/search")
                self._refused_calls += not is_read
                return refusal(HTTPStatus.BAD_REQUEST, str(error))
            if answer is None:
                words = f"there is nothing at {request.method} {request.path}"
                return refusal(HTTPStatus.NOT_FOUND, words)
            if lines := answer.lines:
                if caller is not None:
                    new = [] if caller in self._callers else [{"process": asdict(caller)}]
                    self._callers.add(caller)
                    lines = [*new, *({"rank": caller.rank, **line} for line in lines)]
                try:
                    self._append(lines)
                except OSError as error:
                    self._refused_calls += 1
                    words = f"it cannot be recorded: {error}"
                    return refusal(HTTPStatus.INSUFFICIENT_STORAGE, words)
            if answer.words and answer.words not in self._printed:
                self._printed.add(answer.words)
                self._say(answer.words)
            return answer

    def _listen(self) -> None:
        def serve(connection: socket.socket, caller: object) -> None:
            try:
                with connection, suppress(OSError):
                    _Conversation(connection, caller, self)  # type: ignore[arg-type]
            finally:
                del self._open[threading.current_thread()]

        server = self._listener.getsockname()
        while True:
            try:
                connection, caller = self._listener.accept()
            except TimeoutError:  # after the last connection
                return
            except OSError as error:
                if self._listener.fileno() < 0:  # closed before the last connection
                    return
                log.warning("cannot hear what a process tells: %s", error)
                time.sleep(0.1)  # a file descriptor may be available later
                continue
            if caller == self._last_caller:
                connection.close()
                # The kernel may deliver earlier connections slightly later.
                self._listener.settimeout(0.05)
                continue
            if self._is_shared and callers.is_of_another_user(caller, server):
                connection.close()
                continue
            thread = threading.Thread(target=serve, args=(connection, caller), daemon=True)
            try:
                if len(self._open) == _MAX_CONNECTIONS:
                    raise RuntimeError(f"{_MAX_CONNECTIONS} connections are open")
                self._open[thread] = connection
                thread.start()
            except RuntimeError as error:
                log.warning("one more connection is refused: %s", error)
                self._refused += 1
                self._open.pop(thread, None)
                connection.close()


def no_proxy_for(environ: Mapping[str, str], *peers: str) -> dict[str, str]:
    """Return the variables that exclude this machine and ``peers`` from a proxy; {} without one."""
    if not {"http_proxy", "https_proxy", "all_proxy"} & {name.lower() for name in environ}:
        return {}
    hosts = environ.get("no_proxy") or environ.get("NO_PROXY")
    value = ",".join([*([hosts] if hosts else []), _HOST, *peers])
    return {"no_proxy": value, "NO_PROXY": value}


def refusal(status: int, words: str, code: str = "") -> ReceiverResponse:
    """Return the response to a refused request, in the format of MLflow."""
    return ReceiverResponse(
        {"error_code": code or HTTPStatus(status).name, "message": words}, status
    )


class _Patience(io.RawIOBase):
    """The data of a connection. Reading raises a TimeoutError after a deadline for all of it."""

    def __init__(
        self, connection: socket.socket, seconds: float, on_timeout: Callable[[], None]
    ) -> None:
        """``on_timeout`` is called if something was received before the deadline."""
        self._connection = connection
        self._deadline: float | None = time.monotonic() + seconds
        self._on_timeout = on_timeout
        self._has_received = False

    def have_any(self) -> None:
        """Remove the deadline."""
        self._deadline = None
        self._connection.settimeout(None)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            if self._deadline is not None:
                remaining = self._deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                self._connection.settimeout(remaining)
            received = self._connection.recv_into(buffer)
        except TimeoutError:
            if self._has_received:
                self._on_timeout()
            raise
        self._has_received = True
        return received


class _Conversation(BaseHTTPRequestHandler):
    """The requests of one connection, which stays open between them."""

    protocol_version = "HTTP/1.1"
    # A response is buffered, and sent as one packet without delay.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: HttpReceiver  # type: ignore[assignment]

    def setup(self) -> None:
        """Read from the client with a time limit."""
        super().setup()
        note = self.server.note_unanswered
        self._patience = _Patience(self.connection, _PATIENCE_SECONDS, note)
        self.rfile = io.BufferedReader(self._patience)

    def do_POST(self) -> None:
        """Respond to a request."""
        answer = self._answer()
        body = json.dumps(answer.body).encode()
        self.send_response_only(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Do not log requests."""

    def _answer(self) -> ReceiverResponse:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not re.fullmatch("[0-9]{1,18}", length):
            self.close_connection = True
            return refusal(HTTPStatus.LENGTH_REQUIRED, "a request must have a Content-Length")
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Basic":
            with suppress(ValueError):
                token = b64decode(token).decode().partition(":")[2]
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._read(int(length), at_most=0)
            words = "this server needs the token that the agent has put into the environment"
            return refusal(HTTPStatus.UNAUTHORIZED, words)
        # Clients with the token may keep the connection idle for any time.
        self._patience.have_any()
        url = urlsplit(self.path)
        body = self._read(int(length), at_most=_MAX_BODY_BYTES)
        if body is not None and len(body) < int(length):
            self.server.note_unanswered()
            self.close_connection = True
            return refusal(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length")
        request = ReceiverRequest(self.command, url.path, dict(parse_qsl(url.query)), body)
        return self.server.answer(request, self._caller)

    @cached_property
    def _caller(self) -> ProcessRank | None:
        server = self.connection.getsockname()
        return callers.caller(self.client_address, server, self.server.root)

    def _read(self, length: int, at_most: int) -> bytes | None:
        if length <= at_most:
            return self.rfile.read(length)
        # Read to the end, because clients read the response only after sending everything.
        while length > 0 and (piece := self.rfile.read(min(length, 64 << 10))):
            length -= len(piece)
        return None
