"""A client's socket: never waited on by the loop, and by a thread only as long as the pace allows.

Gunicorn's threads read and write it like a blocking socket. What the loop has received is read
first. Of what is sent, the last piece may still be here when the thread is done: the loop sends it.
"""

import errno
import select
import socket
import time
from collections.abc import Mapping
from typing import Any

from master.serving.pace import Pace

_PIECE_BYTES = 256 << 10


def waited_seconds(environ: Mapping[str, Any]) -> float:
    """Return for how long a request waited for a thread; 0 where it came by no wire."""
    wire = environ.get("gunicorn.socket")
    return wire.waited if isinstance(wire, Wire) else 0.0


class Wire:
    """One connection. Either the loop or one thread has it at a time."""

    def __init__(self, opened: socket.socket) -> None:
        opened.setblocking(False)
        self._socket = opened
        self.arrived = bytearray()
        """What was received, and no thread has read yet."""
        self._unsent = memoryview(b"")
        self.over = False
        """Whether nothing more comes or goes: the client has ended, or was too slow."""
        self.status = 0
        """How the last request was answered."""
        self.whole_at = time.monotonic()
        """When all of the request was there."""
        self.waited = 0.0
        """For how long it then waited for a thread."""
        self._reading = Pace()
        self._writing = Pace()

    # --- What the loop does. ---

    @property
    def held(self) -> int:
        """How many bytes are kept in memory for the client."""
        return len(self.arrived) + len(self._unsent)

    @property
    def is_sending(self) -> bool:
        """Whether a part of the answer is still here."""
        return bool(self._unsent)

    def receive(self) -> int:
        """Take some of what has arrived, and return how many bytes."""
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
        """Send what can be sent now; return whether nothing is left, or can be sent any more."""
        try:
            self._push()
        except OSError:
            self._give_up()
        return not self._unsent

    @property
    def patience(self) -> float:
        """How many seconds the client may take for the next byte of its answer."""
        return self._writing.patience

    def note_waited(self, seconds: float) -> None:
        """Count how long the client was waited for before it took more of its answer."""
        self._writing.note(0, seconds)

    def begin(self) -> None:
        """Begin another request: its pace is its own."""
        self.whole_at = time.monotonic()
        self._reading, self._writing = Pace(), Pace()
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
        """Tell the client that nothing more comes."""
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

    # --- What a thread of gunicorn does, as with a socket. ---

    def recv(self, size: int) -> bytes:
        """Return what is there, once something is; nothing if the client has ended or is slow."""
        while not self.arrived and not self.over:
            if not (self.receive() or self.over or self._wait(select.POLLIN, self._reading)):
                self._give_up()
        data = bytes(self.arrived[:size])
        del self.arrived[:size]
        self._reading.note(len(data))
        return data

    def unread(self, data: bytes) -> None:
        """Take back what belongs to the next request."""
        self.arrived[:0] = data

    def sendall(self, data: bytes) -> None:
        """Send all of it, but for the last piece, which is kept where the client is not ready.

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
        """Send all of it, as ``sendall`` does, and return how much that is."""
        self.sendall(data)
        return len(data)

    def setblocking(self, flag: bool) -> None:
        """Change nothing: it seems to block, and never does for long."""

    def settimeout(self, seconds: float | None) -> None:
        """Change nothing: it has deadlines of its own."""

    def gettimeout(self) -> None:
        """Return nothing: it seems to block."""

    def shutdown(self, how: int) -> None:
        """Change nothing: the loop ends the connection once all is sent."""

    def close(self) -> None:
        """Change nothing: the loop closes the connection once all is sent."""

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

    def _wait(self, event: int, pace: Pace) -> bool:
        """Wait until something can be received or sent; return whether that was in pace."""
        patience = pace.patience
        if patience <= 0:
            return False
        poll = select.poll()
        poll.register(self._socket, event)
        began = time.monotonic()
        ready = bool(poll.poll(patience * 1000))
        pace.note(0, time.monotonic() - began)
        return ready
