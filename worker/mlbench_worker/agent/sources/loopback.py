"""An HTTP server on this machine's loopback, for what code tells the servers of other libraries.

It costs nothing while nobody speaks to it: one thread waits for connections, one more for each.
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

from mlbench.contract.process import Process
from mlbench_worker.agent.sources import processes
from mlbench_worker.agent.sources.egress import connect, join

log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
# A library has some ten for each process. Each costs a thread.
_MOST_CONNECTIONS = 256
_MOST_BODY_BYTES = 8 << 20
_PIECE_BYTES = 64 << 10
# For whoever has yet to show the token; and for what an ended process had still sent.
_PATIENCE_SECONDS = 5.0
# The kernel may hand out connections a bit later than ones that were made after them.
_LATE_SECONDS = 0.05
# Until there may be a file descriptor again.
_PAUSE_SECONDS = 0.1
_LENGTH = re.compile("[0-9]{1,18}")  # of a body

Line = Mapping[str, object]
"""A line of the metrics file; one without a time has the time now."""


@dataclass(frozen=True)
class Request:
    """What a client asks."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None
    """None if it is too long, and was thrown away."""

    def fields(self) -> Mapping[str, Any]:
        """Return the JSON object that the body holds; an empty one of no body.

        Raises:
            ValueError: it is something else, or too long.
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
        """Return the fields of the form that the body holds.

        Raises:
            ValueError: it is no text, or too long.
        """
        return dict(parse_qsl(self._body().decode(), keep_blank_values=True))

    def _body(self) -> bytes:
        if self.body is None:
            raise ValueError(f"a request has at most {_MOST_BODY_BYTES >> 20} MiB")
        return self.body


@dataclass(frozen=True)
class Answer:
    """What a client is told, in JSON, and what that adds to the metrics file and to stderr."""

    body: Mapping[str, object]
    status: int = HTTPStatus.OK
    lines: Sequence[Line] = ()
    words: str = ""
    """Said to the reader of the run's log, once."""


Sockets = tuple[socket.socket, socket.socket]
"""Two of TCP, unbound, in the network where the server is."""

Route = Callable[[Request], Answer | None]
"""Answers a request; None if it is another's. A ValueError is told to the client.

One request is answered at a time.
"""


class Loopback:
    """A server, from when it is made until it is closed."""

    def __init__(
        self,
        routes: Sequence[Route],
        append: Callable[[Sequence[Line]], None],
        say: Callable[[str], None],
        sockets: Sockets | None = None,
        lets_out_to: frozenset[int] = frozenset(),
        root: int | None = None,
    ) -> None:
        """Serve on the network that ``sockets`` are of; by default on that of this process.

        ``append`` writes lines, or raises an OSError; ``say`` writes words to stderr. To the ports
        ``lets_out_to`` of other machines, it is a proxy as well. Who asks descends from ``root``,
        by default from this process.

        Raises:
            OSError, RuntimeError: no socket, or no thread, is left.
        """
        self.token = secrets.token_urlsafe(24)
        self.lets_out_to = lets_out_to
        self.root = root
        self._refused_calls = self._unanswered_calls = self._refused = 0
        self._routes = routes
        self._append = append
        self._say = say
        self._said: set[str] = set()
        self._turn = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._callers: set[Process] = set()
        self._last_caller: object = None
        self._is_shared = sockets is None  # with other users of the machine
        self._listener, self._last = sockets or (socket.socket(), socket.socket())
        self._listener.bind((_HOST, 0))
        self._listener.listen(_MOST_CONNECTIONS)
        self._thread = threading.Thread(target=self._listen, name="loopback", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._listener.close()
            self._last.close()
            raise

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{_HOST}:{self._listener.getsockname()[1]}"

    @property
    def address(self) -> str:
        """The same with the token, as a password."""
        return self.url.replace("//", f"//mlbench:{self.token}@")

    @property
    def egress(self) -> dict[str, str]:
        """The variables that lead clients of HTTPS through this proxy; none if it is none."""
        if not self.lets_out_to:
            return {}
        return dict.fromkeys(("https_proxy", "HTTPS_PROXY"), self.address)

    @property
    def not_recorded(self) -> dict[str, int]:
        """Number of calls that are not recorded, by the fields of ``records.NotRecorded``."""
        unanswered = self._unanswered_calls + self._refused
        return {"refused_calls": self._refused_calls, "unanswered_calls": unanswered}

    def note_unanswered(self) -> None:
        """Count a call that broke off, or timed out, before all of it was read."""
        with self._turn:
            self._unanswered_calls += 1

    def close(self) -> None:
        """Answer what was asked until now by processes that have ended, and stop."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with suppress(OSError), self._last as last:
            # Behind all who wait to be heard.
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

    def answer(self, request: Request, caller: Process | None = None) -> Answer:
        """Answer a request, once what it adds is written.

        ``caller`` is the process that asks, where its rank is not its worker's.
        """
        with self._turn:
            try:
                answers = (route(request) for route in self._routes)
                answer = next((reply for reply in answers if reply is not None), None)
            except ValueError as error:
                self._refused_calls += not _only_asks(request)
                return refusal(HTTPStatus.BAD_REQUEST, str(error))
            if answer is None:
                words = f"there is nothing at {request.method} {request.path}"
                return refusal(HTTPStatus.NOT_FOUND, words)
            if answer.lines:
                try:
                    self._append(self._of(caller, answer.lines))
                except OSError as error:
                    self._refused_calls += 1
                    words = f"it cannot be recorded: {error}"
                    return refusal(HTTPStatus.INSUFFICIENT_STORAGE, words)
            if answer.words and answer.words not in self._said:
                self._said.add(answer.words)
                self._say(answer.words)
            return answer

    def _of(self, caller: Process | None, lines: Sequence[Line]) -> Sequence[Line]:
        if caller is None:
            return lines
        new = [] if caller in self._callers else [{"process": asdict(caller)}]
        self._callers.add(caller)
        return [*new, *({"rank": caller.rank, **line} for line in lines)]

    def _listen(self) -> None:
        server = self._listener.getsockname()
        while True:
            try:
                connection, caller = self._listener.accept()
            except TimeoutError:  # the last one was heard, and all that were late
                return
            except OSError as error:
                if self._listener.fileno() < 0:  # it was closed before all were heard
                    return
                log.warning("cannot hear what a process tells: %s", error)
                time.sleep(_PAUSE_SECONDS)
                continue
            if caller == self._last_caller:
                connection.close()
                self._listener.settimeout(_LATE_SECONDS)
                continue
            if self._is_shared and processes.is_of_another_user(caller, server):
                connection.close()
                continue
            thread = threading.Thread(target=self._serve, args=(connection, caller), daemon=True)
            try:
                if len(self._open) == _MOST_CONNECTIONS:
                    raise RuntimeError(f"{_MOST_CONNECTIONS} connections are open")
                self._open[thread] = connection
                thread.start()
            except RuntimeError as error:
                log.warning("one more connection is refused: %s", error)
                self._refused += 1
                self._open.pop(thread, None)
                connection.close()

    def _serve(self, connection: socket.socket, caller: object) -> None:
        try:
            with connection, suppress(OSError):
                _Conversation(connection, caller, self)
        finally:
            del self._open[threading.current_thread()]


def _only_asks(request: Request) -> bool:
    """Check that a request would record nothing."""
    return request.method == "GET" or request.path.endswith("/search")


def no_proxy_for(environ: Mapping[str, str], *peers: str) -> dict[str, str]:
    """Return the variables that keep clients from asking a proxy for this machine, if need be.

    ``peers`` are others that no proxy shall be asked for.
    """
    if not {"http_proxy", "https_proxy", "all_proxy"} & {name.lower() for name in environ}:
        return {}
    given = environ.get("no_proxy") or environ.get("NO_PROXY")
    value = ",".join([*([given] if given else []), _HOST, *peers])
    return {"no_proxy": value, "NO_PROXY": value}


def refusal(status: int, words: str, code: str = "") -> Answer:
    """Return an answer that says in words why a request is refused, as MLflow's clients show it."""
    return Answer({"error_code": code or HTTPStatus(status).name, "message": words}, status)


class _Patience(io.RawIOBase):
    """What a connection receives; a TimeoutError once a deadline is over, however it drips."""

    def __init__(
        self, connection: socket.socket, seconds: float, on_timeout: Callable[[], None]
    ) -> None:
        """``on_timeout`` is called if something was received before the deadline."""
        self._connection = connection
        self._deadline: float | None = time.monotonic() + seconds
        self._on_timeout = on_timeout
        self._has_received = False

    def have_any(self) -> None:
        """Wait for as long as it takes from now on."""
        self._deadline = None
        self._connection.settimeout(None)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            if self._deadline is not None:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._connection.settimeout(left)
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
    # An answer is one packet, sent at once.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Loopback  # type: ignore[assignment]

    def __init__(self, connection: socket.socket, caller: object, server: Loopback) -> None:
        super().__init__(connection, caller, server)  # type: ignore[arg-type]

    def setup(self) -> None:
        """Read what the client sends with some patience."""
        super().setup()
        note = self.server.note_unanswered
        self._patience = _Patience(self.connection, _PATIENCE_SECONDS, note)
        self.rfile = io.BufferedReader(self._patience)

    def _respond(self) -> None:
        answer = self._answer()
        body = json.dumps(answer.body).encode()
        self.send_response_only(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    # What http.server calls.
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond  # noqa: N815

    def do_CONNECT(self) -> None:
        """Connect a client of the proxy with where it wants to go."""
        self.close_connection = True
        status, there = self._reach()
        self.send_response_only(status)
        self.end_headers()
        if there is not None:
            self.wfile.flush()
            join(self.connection, there)

    def _reach(self) -> tuple[HTTPStatus, socket.socket | None]:
        ports = self.server.lets_out_to
        if not ports or not self._shows_token("Proxy-Authorization"):
            return HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, None
        host, _, port = self.path.rpartition(":")
        if port not in map(str, ports):
            return HTTPStatus.FORBIDDEN, None
        try:
            return HTTPStatus.OK, connect(host.strip("[]"), int(port), _PATIENCE_SECONDS)
        except (OSError, UnicodeError) as error:
            log.warning("a process cannot be let out to %s: %s", self.path, error)
            return HTTPStatus.BAD_GATEWAY, None

    def log_message(self, *_: object) -> None:
        """Keep what processes ask out of the agent's log."""

    def _answer(self) -> Answer:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not _LENGTH.fullmatch(length):
            self.close_connection = True
            return refusal(HTTPStatus.LENGTH_REQUIRED, "a request must have a Content-Length")
        if not self._shows_token("Authorization"):
            self._read(int(length), at_most=0)
            words = "this server needs the token that the agent has put into the environment"
            return refusal(HTTPStatus.UNAUTHORIZED, words)
        # Who has it may be silent for as long as it likes.
        self._patience.have_any()
        url = urlsplit(self.path)
        body = self._read(int(length), at_most=_MOST_BODY_BYTES)
        if body is not None and len(body) < int(length):
            self.server.note_unanswered()
            self.close_connection = True
            return refusal(HTTPStatus.BAD_REQUEST, "the body is shorter than its Content-Length")
        request = Request(self.command, url.path, dict(parse_qsl(url.query)), body)
        return self.server.answer(request, self._caller)

    @cached_property
    def _caller(self) -> Process | None:
        server = self.connection.getsockname()
        return processes.caller(self.client_address, server, self.server.root)

    def _shows_token(self, header: str) -> bool:
        scheme, _, shown = self.headers.get(header, "").partition(" ")
        if scheme == "Basic":
            with suppress(ValueError):
                shown = b64decode(shown).decode().partition(":")[2]
        return hmac.compare_digest(shown.encode(), self.server.token.encode())

    def _read(self, length: int, at_most: int) -> bytes | None:
        if length <= at_most:
            return self.rfile.read(length)
        # To its end: a client that still sends does not look for an answer.
        while length > 0 and (piece := self.rfile.read(min(length, _PIECE_BYTES))):
            length -= len(piece)
        return None
