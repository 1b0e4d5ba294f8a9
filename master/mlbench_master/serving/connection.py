"""A client's connection with buffers: the loop never waits on it, a thread for a limited time.

The loop receives requests and sends the rest of responses. A thread only waits for a client if it
reads a body of unknown length, or sends a response of several pieces. A client that is slower than
a minimum rate is cut off.
"""

import json
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from gunicorn.config import Config
from gunicorn.http import Request, RequestParser, errors

from mlbench_master.serving.bulkheads import Bulkhead, bulkhead_of

ENVIRON_KEY = "mlbench.connection"
"""Key of the connection in the WSGI environment of its request."""

# Longest time without a transferred byte.
STALL_SECONDS = 10.0
# Minimum mean rate during the time in which the master waits for the client.
MIN_BYTES_PER_SECOND = 16 << 10
# The parser accepts at most 100 header fields of 8 KiB, but no client of ours sends as much.
_MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 4 << 20
"""Maximum size of a body that the loop receives, and of a chunk that an agent ships."""
# Other malformed requests get 400.
_STATUS_OF = {
    errors.LimitRequestLine: HTTPStatus.REQUEST_URI_TOO_LONG,
    errors.ExpectationFailed: HTTPStatus.EXPECTATION_FAILED,
    errors.LimitRequestHeaders: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    errors.UnsupportedTransferCoding: HTTPStatus.NOT_IMPLEMENTED,
}
# Headers of requests whose body has no known length, or is only sent once it is asked for.
_STREAMED = {"TRANSFER-ENCODING", "EXPECT"}
# Pieces of a response are sent together up to this size, its head with the start of its body.
_BATCH_BYTES = 64 << 10
# Wait up to 2 ms for the client's next request in a thread: going back through the event loop costs
# twice as much. SO_RCVTIMEO does it in one system call instead of two, and no other call on these
# sockets blocks.
_SOON = struct.pack("ll", 0, 2000)
_AT_ONCE = socket.MSG_DONTWAIT


class ClientGoneError(Exception):
    """The client has disconnected, or is too slow."""


@dataclass
class TransferRate:
    """Transfer rate of one direction of one request."""

    moved: int = 0
    """Bytes transferred."""
    waited: float = 0.0
    """Seconds of waiting for the client."""

    @property
    def timeout(self) -> float:
        """Longest time for the next byte, in seconds; 0 or less if it is used up."""
        allowed = STALL_SECONDS + self.moved / MIN_BYTES_PER_SECOND
        return min(STALL_SECONDS, allowed - self.waited)


def waited_seconds(environ: Mapping[str, Any]) -> float:
    """Return how long a request waited for a thread; 0 under another server."""
    connection = environ.get(ENVIRON_KEY)
    return connection.waited if isinstance(connection, Connection) else 0.0


def is_gone(environ: Mapping[str, Any]) -> bool:
    """Return whether the client of a request has disconnected; False under another server."""
    connection = environ.get(ENVIRON_KEY)
    return isinstance(connection, Connection) and connection.is_gone


class Connection:
    """A client's connection, which either the loop or one thread uses at a time."""

    def __init__(self, opened: socket.socket, client: Any = None, server: Any = None) -> None:
        opened.setblocking(True)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SOON)
        self._socket = opened
        self.client, self.server = client, server
        """Addresses of both ends."""
        self.arrived = bytearray()
        """Received data, from the head of the current request on."""
        self._unsent = bytearray()
        self.is_over = False
        """Whether the connection has ended: the client has disconnected, or was too slow."""
        self.is_agents = False
        """Whether an agent has authenticated on it."""
        self.stays = False
        """Whether another request may follow the current one."""
        self.waited = 0.0
        """Seconds for which a complete request waited for a thread."""
        self.began = time.monotonic()
        """Monotonic time at which its present wait started, in the loop or for a thread."""
        self.deadline = 0.0
        """Monotonic time at which its wait in the loop ends."""
        self.begin()

    def begin(self) -> None:
        """Wait for another request, with new transfer rates."""
        self.request: Request | None = None
        """The current request; None until a thread can have it."""
        self.bulkhead = Bulkhead.OTHERS
        """Bulkhead of the current request."""
        self.request_bytes = 0
        """Bytes of head and body that a thread must have; 0 until the head has arrived."""
        self._reading, self.writing = TransferRate(), TransferRate()

    # --- The current request. ---

    def find_request(self, config: Config) -> bool:
        """Return whether a thread can have the request. A malformed one is refused."""
        if len(self.arrived) < self.request_bytes:
            return False
        end = self.arrived.find(b"\r\n\r\n", 0, _MAX_HEAD_BYTES) + 4
        if end < 4 and len(self.arrived) < _MAX_HEAD_BYTES:
            return False
        try:
            if end < 4:
                raise errors.LimitRequestHeaders(f"more than {_MAX_HEAD_BYTES >> 10} KiB")
            pieces = self._pieces(bytes(self.arrived[:end]))
            request = next(RequestParser(config, pieces, self.client))
        except Exception as error:  # The loop must survive every error.
            self.refuse(_STATUS_OF.get(type(error), HTTPStatus.BAD_REQUEST), str(error))
            return False
        headers = dict(request.headers)
        length = int(headers.get("CONTENT-LENGTH", 0))
        if length > MAX_BODY_BYTES or not _STREAMED.isdisjoint(headers):
            self.bulkhead, self.request_bytes = Bulkhead.SLOW, end
        else:
            self.bulkhead = bulkhead_of(request.method or "", request.path or "")
            self.request_bytes = end + length
        if len(self.arrived) < self.request_bytes:
            return False  # It is parsed again later, because a parsed head takes more memory.
        self.request = request
        return True

    def _pieces(self, head: bytes) -> Iterator[bytes]:
        """Yield the head to gunicorn's parser, then the body to the thread that reads it."""
        yield head
        if self.request is None:
            return  # The loop parses the head, and must not wait for the client.
        if self.bulkhead is Bulkhead.SLOW:
            del self.arrived[: len(head)]
            while data := self._wait_for_data():
                yield data
        else:
            yield bytes(self.arrived[len(head) : self.request_bytes])

    def end_request(self) -> None:
        """Forget the request with its body, also if the body was not read."""
        del self.arrived[: self.request_bytes]
        self.begin()

    def refuse(self, status: HTTPStatus, message: str) -> None:
        """Respond with an error, after which the connection is closed."""
        self.stays = False
        self.arrived.clear()
        self.begin()
        body = json.dumps({"status": status, "message": message})
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Length: {len(body)}",
            *(["Retry-After: 5"] if status is HTTPStatus.SERVICE_UNAVAILABLE else []),
            *("Content-Type: application/json", "Connection: close", "", body),
        ]
        self._unsent += "\r\n".join(lines).encode()

    # --- Without waiting. ---

    @property
    def held(self) -> int:
        """Bytes in memory for the client."""
        return len(self.arrived) + len(self._unsent)

    @property
    def is_sending(self) -> bool:
        """Whether a part of the response is not sent yet."""
        return bool(self._unsent)

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed its side of the connection."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | _AT_ONCE) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def receive(self, flags: int = _AT_ONCE) -> int:
        """Receive the data that have arrived, and return their length."""
        try:
            data = self._socket.recv(256 << 10, flags)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        self.is_over = self.is_over or not data
        self.arrived += data
        return len(data)

    def flush(self) -> bool:
        """Send as much as possible without waiting, and return whether everything is sent."""
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent, _AT_ONCE)
                self.writing.moved += sent
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._give_up()
        return True

    def end_sending(self) -> None:
        """Close the sending side of the connection, and forget what has arrived."""
        self.arrived.clear()
        self.begin()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    # --- For a thread. ---

    def receive_soon(self) -> bool:
        """Wait up to 2 ms for data, unless some have arrived; return whether there are any."""
        return bool(self.arrived or self.receive(0))

    def sendall(self, data: bytes) -> None:
        """Send the previous pieces of a response, and leave the last one for ``flush``.

        Raises:
            ClientGoneError: the client has disconnected, or is too slow.
        """
        if len(self._unsent) >= _BATCH_BYTES:
            while not self.flush():
                if not self._wait(select.POLLOUT, self.writing):
                    self._give_up()
        if self.is_over:
            raise ClientGoneError
        self._unsent += data
        if len(self._unsent) >= _BATCH_BYTES:
            self.flush()

    # Gunicorn asks a client for its body by this method (``100 Continue``).
    send = sendall

    def _wait_for_data(self) -> bytes:
        """Wait for data and return them; empty if the client has disconnected or is too slow."""
        self.flush()
        while not self.arrived and not self.is_over:
            if not (self.receive() or self.is_over or self._wait(select.POLLIN, self._reading)):
                self._give_up()
        data = bytes(self.arrived)
        self.arrived.clear()
        self._reading.moved += len(data)
        return data

    def _wait(self, event: int, rate: TransferRate) -> bool:
        """Wait until the socket is ready, and return whether it was in time."""
        timeout = rate.timeout
        began = time.monotonic()
        poll = select.poll()
        poll.register(self._socket, event)
        ready = timeout > 0 and bool(poll.poll(timeout * 1000))
        rate.waited += time.monotonic() - began
        return ready

    def _give_up(self) -> None:
        self.is_over = True
        self._unsent.clear()


class WaitingConnections:
    """Connections without a thread, in the order in which their waits started."""

    def __init__(self) -> None:
        self._bytes: dict[Connection, int] = {}
        self.held = 0
        """Bytes in memory for all these connections."""

    def __iter__(self) -> Iterator[Connection]:
        return iter([*self._bytes])

    def __contains__(self, conn: Connection) -> bool:
        return conn in self._bytes

    def put(self, conn: Connection) -> None:
        """Add a connection, or update its number of bytes in memory."""
        self.held += conn.held - self._bytes.get(conn, 0)
        self._bytes[conn] = conn.held

    def take(self, conn: Connection) -> None:
        """Remove a connection, if present."""
        self.held -= self._bytes.pop(conn, 0)

    def first(self) -> Connection | None:
        """Return the connection to close first: the longest waiting one, agents last."""
        others = (conn for conn in self._bytes if not conn.is_agents)
        return next(others, next(iter(self._bytes), None))
