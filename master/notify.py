"""The bell: who leaves work for the controller rings, so it may sleep until then.

A ring is a datagram to a Unix socket that is named after the database, without a file. It saves
time and nothing else: the controller also looks by itself, as a ring may be lost, or come from a
place that does not reach it.
"""

import hashlib
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, Protocol

from master.database import database

Reason = Literal["work", "samples"]
# However often it rings, a thread looks so often at most: what comes gathers meanwhile. A request
# to Prometheus for each line would cost too much.
_LEAST_SECONDS: Final[Mapping[Reason, float]] = {"work": 0.1, "samples": 1.0}

_ringer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class Rest(Protocol):
    """How a thread rests: ``threading.Event`` of its end is one."""

    def wait(self, seconds: float, /) -> bool:
        """Rest for so many seconds at most, and return whether to end."""


class Bell:
    """Wakes the threads of the controller."""

    def __init__(self, stop: threading.Event) -> None:
        """Wake threads until ``stop`` is set; the database must be open."""
        self._stop = stop
        self._sleepers: list[_Sleeper] = []
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            heard.bind(_address())
        except OSError:  # another process has the name: threads look by themselves
            heard.close()
        else:
            threading.Thread(target=self._listen, args=(heard,), name="bell", daemon=True).start()

    def sleeper(self, reason: Reason = "work") -> Rest:
        """Return how one thread rests until the bell rings for a reason."""
        self._sleepers.append(_Sleeper(self._stop, reason))
        return self._sleepers[-1]

    def stop(self) -> None:
        """Wake all threads, to end."""
        self._stop.set()
        for sleeper in self._sleepers:
            sleeper.rung.set()

    def _listen(self, heard: socket.socket) -> None:
        while True:
            reason = heard.recv(16).decode()
            for sleeper in self._sleepers:
                if sleeper.reason == reason:
                    sleeper.rung.set()


class _Sleeper:
    def __init__(self, stop: threading.Event, reason: Reason) -> None:
        self.rung = threading.Event()
        self.reason = reason
        self._stop = stop
        self._woke_at = float("-inf")

    def wait(self, seconds: float, /) -> bool:
        if self.rung.wait(seconds):
            again_at = self._woke_at + _LEAST_SECONDS[self.reason]
            self._stop.wait(min(seconds, again_at - time.monotonic()))
        self.rung.clear()
        self._woke_at = time.monotonic()
        return self._stop.is_set()


def ring(reason: Reason = "work") -> None:
    """Have the controller look now; call this after the transaction that leaves it work."""
    with suppress(OSError):
        _ringer.sendto(reason.encode(), _address())


def _address() -> str:
    found = database.obj
    where = [found.database, *(found.connect_params.get(key) for key in ("host", "port"))]
    return "\0mlbench-" + hashlib.sha256(repr(where).encode()).hexdigest()[:32]
