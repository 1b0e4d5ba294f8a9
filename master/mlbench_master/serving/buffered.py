"""A client's socket with buffers, on which the loop never waits, and a thread never for long.

Gunicorn's threads use it like a blocking socket. They first read what the loop has received, and
the last piece of what they write may be left for the loop to send. A client that is slower
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

# How long a client may take without moving a byte.
STALL_SECONDS = 10.0
# The least that it moves on average, of the time in which the master waits for it.
LEAST_BYTES_PER_SECOND = 16 << 10
_PIECE_BYTES = 256 << 10
# A thread waits 2 ms for the next request: through the loop it would cost twice as much. By the
# kernel's own timeout, that is one system call instead of two. Nothing else ever waits in one.
_SOON = struct.pack("ll", 0, 2000)
_AT_ONCE = socket.MSG_DONTWAIT


@dataclass
class TransferRate:
    """The transfer rate of one direction of one request."""

    waited: float = 0.0
    moved: int = 0

    def note(self, moved: int, waited: float = 0.0) -> None:
        """Count bytes that were moved, and seconds that were waited for them."""
        self.moved += moved
        self.waited += waited

    @property
    def timeout(self) -> float:
        """Seconds that the next byte may take; 0 or less if none are left."""
        allowed = STALL_SECONDS + self.moved / LEAST_BYTES_PER_SECOND
        return min(STALL_SECONDS, allowed - self.waited)


def waited_seconds(environ: Mapping[str, Any]) -> float:
    """Return for how long a request waited for a thread; 0 for another kind of socket."""
    buffered = environ.get("gunicorn.socket")
    return buffered.waited if isinstance(buffered, BufferedSocket) else 0.0


class BufferedSocket:
    """One connection. Either the loop or one thread has it at a time."""

    def __init__(self, opened: socket.socket) -> None:
        opened.setblocking(True)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _SOON)
        self._socket = opened
        self.arrived = bytearray()
        """What was received and not yet read."""
        self._unsent = memoryview(b"")
        self.over = False
        """Whether nothing more can be moved: the client has gone, or was too slow."""
        self.waited = 0.0
        """For how many seconds a complete request waited for a thread."""
        self.begin()

    # --- For the loop. ---

    @property
    def held(self) -> int:
        """The bytes that are kept in memory for the client."""
        return len(self.arrived) + len(self._unsent)

    @property
    def is_sending(self) -> bool:
        """Whether a part of the answer is left to send."""
        return bool(self._unsent)

    def receive(self, flags: int = _AT_ONCE) -> int:
        """Receive what has arrived, and return how many bytes."""
        try:
            data = self._socket.recv(_PIECE_BYTES, flags)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        self.over = self.over or not data
        self.arrived += data
        return len(data)

    def flush(self) -> bool:
        """Send what can be sent now, and return whether nothing is left to send."""
        try:
            self._push()
        except OSError:
            self._give_up()
        return not self._unsent

    def begin(self) -> None:
        """Begin another request, whose transfer rates count from 0."""
        self.whole_at = time.monotonic()
        """When the request was complete."""
        self._reading, self.writing = TransferRate(), TransferRate()
        self.status = 0
        """The status of its answer."""
        self._pieces = 0
        """How many pieces of its answer there were."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has ended its side of the connection."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | _AT_ONCE) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end_sending(self) -> None:
        """Tell the client that nothing more will come."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Close the connection."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._socket.fileno()

    # --- For a thread of gunicorn, as if it were a blocking socket. ---

    def recv(self, size: int) -> bytes:
        """Return bytes once some have arrived; none if the client is gone or too slow."""
        while not self.arrived and not self.over:
            if not (self.receive() or self.over or self._wait(select.POLLIN, self._reading)):
                self._give_up()
        data = bytes(self.arrived[:size])
        del self.arrived[:size]
        self._reading.note(len(data))
        return data

    def receive_soon(self) -> None:
        """Receive what arrives soon, unless something has already."""
        if not self.arrived:
            self.receive(0)

    def unread(self, data: bytes) -> None:
        """Give back what belongs to the next request."""
        self.arrived[:0] = data

    def sendall(self, data: bytes) -> None:
        """Send all but the last piece, and of that as much as the client takes now.

        Raises:
            ConnectionResetError: the client has gone, or is too slow.
        """
        self._pieces += 1
        if self._pieces == 1:  # the head leaves with the beginning of the body
            self._unsent = memoryview(data)
            return
        if self._pieces == 2:
            data, self._unsent = bytes(self._unsent) + data, memoryview(b"")
        while self._unsent and not self.over:
            self._push()
            if self._unsent and not self._wait(select.POLLOUT, self.writing):
                self._give_up()
        if self.over:
            raise ConnectionResetError(errno.ECONNRESET, "the client has gone, or is too slow")
        self._unsent = memoryview(data)
        self._push()

    def send(self, data: bytes) -> int:
        """Ask the client for its body, before the answer."""
        self.sendall(data)
        self.flush()
        self._pieces = 0
        return len(data)

    def _do_nothing(self, *_: object) -> None:
        """Ignore a call: deadlines are kept here, and the loop closes the connection."""

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
        """Wait until the socket is ready; return whether that was before its timeout."""
        timeout = rate.timeout
        began = time.monotonic()
        poll = select.poll()
        poll.register(self._socket, event)
        ready = timeout > 0 and bool(poll.poll(timeout * 1000))
        rate.note(0, time.monotonic() - began)
        return ready
