"""A client's socket with buffers, on which the loop never waits, and a thread never for long.

Gunicorn's threads use it like a blocking socket. They first read what the loop has received, and
the last piece of what they write may be left for the loop to send. A client that is slower
than a minimum rate is cut off.
"""

import errno
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# How long a client may take without moving a byte.
STALL_SECONDS = 10.0
# The least that it moves on average, of the time in which the master waits for it.
LEAST_BYTES_PER_SECOND = 16 << 10
_PIECE_BYTES = 256 << 10


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
        opened.setblocking(False)
        self._socket = opened
        self.arrived = bytearray()
        """What was received and not yet read."""
        self._unsent = memoryview(b"")
        self.over = False
        """Whether nothing more can be moved: the client has gone, or was too slow."""
        self.status = 0
        """The status of the last answer."""
        self.whole_at = time.monotonic()
        """When the request was complete."""
        self.waited = 0.0
        """For how many seconds it then waited for a thread."""
        self._reading = TransferRate()
        self._writing = TransferRate()

    # --- For the loop. ---

    @property
    def held(self) -> int:
        """The bytes that are kept in memory for the client."""
        return len(self.arrived) + len(self._unsent)

    @property
    def is_sending(self) -> bool:
        """Whether a part of the answer is left to send."""
        return bool(self._unsent)

    def receive(self) -> int:
        """Receive what has arrived, and return how many bytes."""
        try:
            data = self._socket.recv(_PIECE_BYTES)
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

    @property
    def timeout(self) -> float:
        """How many seconds the client may take for the next byte of its answer."""
        return self._writing.timeout

    def note_waited(self, seconds: float) -> None:
        """Count a wait for the client to take more of its answer."""
        self._writing.note(0, seconds)

    def begin(self) -> None:
        """Begin another request, whose transfer rates count from 0."""
        self.whole_at = time.monotonic()
        self._reading, self._writing = TransferRate(), TransferRate()
        self.status = 0

    @property
    def is_gone(self) -> bool:
        """Whether the client has ended its side of the connection."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end_sending(self) -> None:
        """Tell the client that nothing more will come."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.over = True

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

    def receive_soon(self, seconds: float) -> None:
        """Receive what arrives within so many seconds, unless something has already."""
        if not self.arrived and self._is_ready(select.POLLIN, seconds):
            self.receive()
        self.begin()

    def unread(self, data: bytes) -> None:
        """Give back what belongs to the next request."""
        self.arrived[:0] = data

    def sendall(self, data: bytes) -> None:
        """Send all but the last piece, and of that as much as the client takes now.

        Raises:
            ConnectionResetError: the client has gone, or is too slow.
        """
        while self._unsent and not self.over:
            self._push()
            if self._unsent and not self._wait(select.POLLOUT, self._writing):
                self._give_up()
        if self.over:
            raise ConnectionResetError(errno.ECONNRESET, "the client has gone, or is too slow")
        self._unsent = memoryview(data)
        self._push()

    def send(self, data: bytes) -> int:
        """Send all, as ``sendall`` does, and return its length."""
        self.sendall(data)
        return len(data)

    def _do_nothing(self, *_: object) -> None:
        """Ignore a call: deadlines are kept here, and the loop closes the connection."""

    setblocking = settimeout = gettimeout = shutdown = close = _do_nothing

    def _push(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return
            self._writing.note(sent)
            self._unsent = self._unsent[sent:]

    def _give_up(self) -> None:
        self.over = True
        self._unsent = memoryview(b"")

    def _wait(self, event: int, rate: TransferRate) -> bool:
        """Wait until the socket is ready; return whether that was before its timeout."""
        timeout = rate.timeout
        began = time.monotonic()
        ready = timeout > 0 and self._is_ready(event, timeout)
        rate.note(0, time.monotonic() - began)
        return ready

    def _is_ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, event)
        return bool(poll.poll(seconds * 1000))
