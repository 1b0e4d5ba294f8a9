"""Client socket with buffers: the loop never waits on it, and a thread only for a limited time.

Gunicorn's threads use it like a blocking socket. They first read the data that the loop has
received, and may leave the last piece of a response for the loop to send. A client that is slower
than a minimum rate is cut off.
"""

import errno
import select
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

# Longest time without a transferred byte.
STALL_SECONDS = 10.0
# Minimum mean rate during the time in which the master waits for the client.
MIN_BYTES_PER_SECOND = 16 << 10
# Wait up to 2 ms for the client's next request in a thread: going back through the event loop costs
# twice as much. SO_RCVTIMEO does it in one system call instead of two, and no other call on these
# sockets blocks.
_SOON = struct.pack("ll", 0, 2000)
_AT_ONCE = socket.MSG_DONTWAIT


@dataclass
class TransferRate:
    """Transfer rate of one direction of one request."""

    waited: float = 0.0
    moved: int = 0

    def note(self, moved: int, waited: float = 0.0) -> None:
        """Count transferred bytes, and the seconds of waiting for them."""
        self.moved += moved
        self.waited += waited

    @property
    def timeout(self) -> float:
        """Longest time for the next byte, in seconds; 0 or less if it is used up."""
        allowed = STALL_SECONDS + self.moved / MIN_BYTES_PER_SECOND
        return min(STALL_SECONDS, allowed - self.waited)


def waited_seconds(environ: Mapping[str, Any]) -> float:
    """Return how long a request waited for a thread; 0 for another kind of socket."""
    buffered = environ.get("gunicorn.socket")
    return buffered.waited if isinstance(buffered, BufferedSocket) else 0.0


class BufferedSocket:
    """One connection, which either the loop or one thread uses at a time."""

    def __init__(self, opened: socket.socket) -> None:
        opened.setblocking(True)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SOON)
        self._socket = opened
        self.arrived = bytearray()
        """Received data that were not read yet."""
        self._unsent = memoryview(b"")
        self.over = False
        """Whether the connection has ended: the client has disconnected, or was too slow."""
        self.waited = 0.0
        """Seconds for which a complete request waited for a thread."""
        self.begin()

    # --- For the loop. ---

    @property
    def held(self) -> int:
        """Bytes in memory for the client."""
        return len(self.arrived) + len(self._unsent)

    @property
    def is_sending(self) -> bool:
        """Whether a part of the response is not sent yet."""
        return bool(self._unsent)

    def receive(self, flags: int = _AT_ONCE) -> int:
        """Receive the data that have arrived, and return their length."""
        try:
            data = self._socket.recv(256 << 10, flags)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        self.over = self.over or not data
        self.arrived += data
        return len(data)

    def flush(self) -> bool:
        """Send as much as possible without waiting, and return whether everything is sent."""
        try:
            self._push()
        except OSError:
            self._give_up()
        return not self._unsent

    def begin(self) -> None:
        """Start another request, with new transfer rates."""
        self.whole_at = time.monotonic()
        """Monotonic time at which the request was complete."""
        self._reading, self.writing = TransferRate(), TransferRate()
        self.status = 0
        """HTTP status of the response."""
        self._pieces = 0
        """Number of pieces of the response so far."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed its side of the connection."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | _AT_ONCE) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end_sending(self) -> None:
        """Close the sending side of the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    # --- For a thread of gunicorn, as if it were a blocking socket. ---

    def recv(self, size: int) -> bytes:
        """Wait for data and return them; empty if the client has disconnected or is too slow."""
        while not self.arrived and not self.over:
            if not (self.receive() or self.over or self._wait(select.POLLIN, self._reading)):
                self._give_up()
        data = bytes(self.arrived[:size])
        del self.arrived[:size]
        self._reading.note(len(data))
        return data

    def receive_soon(self) -> None:
        """Wait up to 2 ms for data, unless some have arrived already."""
        if not self.arrived:
            self.receive(0)

    def unread(self, data: bytes) -> None:
        """Give back data of the next request."""
        self.arrived[:0] = data

    def sendall(self, data: bytes) -> None:
        """Send the previous pieces completely, and as much of the last one as fits now.

        Raises:
            ConnectionResetError: the client has disconnected, or is too slow.
        """
        self._pieces += 1
        if self._pieces == 1:  # the head is sent together with the start of the body
            self._unsent = memoryview(data)
            return
        if self._pieces == 2:
            data, self._unsent = bytes(self._unsent) + data, memoryview(b"")
        while self._unsent and not self.over:
            self._push()
            if self._unsent and not self._wait(select.POLLOUT, self.writing):
                self._give_up()
        if self.over:
            raise ConnectionResetError(
                errno.ECONNRESET, "the client has disconnected, or is too slow"
            )
        self._unsent = memoryview(data)
        self._push()

    def send(self, data: bytes) -> int:
        """Ask the client for its body (``100 Continue``), before the response."""
        self.sendall(data)
        self.flush()
        self._pieces = 0
        return len(data)

    def _do_nothing(self, *_: object) -> None:
        """Ignore the call: this class has its own timeouts, and the loop closes the connection."""

    setblocking = settimeout = gettimeout = shutdown = close = _do_nothing

    def _push(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent, _AT_ONCE)
            except (BlockingIOError, InterruptedError):
                return
            self.writing.note(sent)
            self._unsent = self._unsent[sent:]

    def _give_up(self) -> None:
        self.over = True
        self._unsent = memoryview(b"")

    def _wait(self, event: int, rate: TransferRate) -> bool:
        """Wait until the socket is ready, and return whether it was in time."""
        timeout = rate.timeout
        began = time.monotonic()
        poll = select.poll()
        poll.register(self._socket, event)
        ready = timeout > 0 and bool(poll.poll(timeout * 1000))
        rate.note(0, time.monotonic() - began)
        return ready
