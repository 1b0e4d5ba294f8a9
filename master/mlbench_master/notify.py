"""Wake the controller: processes that leave work for it notify it, so its threads can wait.

A notification is a datagram to an abstract Unix socket named after the database. It only saves
time. The controller also looks on its own, because a datagram can be lost, or its sender may be on
another machine.
"""

import hashlib
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Final, Literal, Protocol

from peewee import Database

from mlbench_master.database.connection import database

Reason = Literal["work", "samples", "blocks"]
# Shortest time between two looks of a thread, however often it is notified. Data accumulate in the
# meantime: a request to Prometheus for each line would cost too much.
_MIN_SECONDS: Final[Mapping[Reason, float]] = {"work": 0.1, "samples": 1.0, "blocks": 1.0}

_sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class Waiter(Protocol):
    """Lets a thread wait; a ``threading.Event`` that is set at the end implements this."""

    def wait(self, seconds: float, /) -> bool:
        """Wait for at most this many seconds, and return whether to end."""


class Waker:
    """Wakes the threads of the controller."""

    def __init__(self, stop: threading.Event) -> None:
        """Start to listen for notifications. The database must be open."""
        self._stop = stop
        self._sleepers: list[_Waiter] = []
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.bind(_address_of(database.obj))
        except OSError:  # another process has the name: threads look on their own
            receiver.close()
            return

        def listen() -> None:
            while True:
                reason = receiver.recv(16).decode()
                for waiter in self._sleepers:
                    if waiter.reason == reason:
                        waiter.notified.set()

        threading.Thread(target=listen, name="waker", daemon=True).start()

    def waiter(self, reason: Reason = "work") -> Waiter:
        """Return a waiter for one thread, which notifications with this reason wake."""
        self._sleepers.append(_Waiter(self._stop, reason))
        return self._sleepers[-1]

    def stop(self) -> None:
        """Wake all threads so that they end."""
        self._stop.set()
        for waiter in self._sleepers:
            waiter.notified.set()


class _Waiter:
    def __init__(self, stop: threading.Event, reason: Reason) -> None:
        self.notified = threading.Event()
        self.reason = reason
        self._stop = stop
        self._woke_at = float("-inf")

    def wait(self, seconds: float, /) -> bool:
        if self.notified.wait(seconds):
            again_at = self._woke_at + _MIN_SECONDS[self.reason]
            self._stop.wait(min(seconds, again_at - time.monotonic()))
        self.notified.clear()
        self._woke_at = time.monotonic()
        return self._stop.is_set()


def notify(reason: Reason = "work") -> None:
    """Wake the controller. Call this after the transaction that leaves work for it."""
    with suppress(OSError):
        _sender.sendto(reason.encode(), _address_of(database.obj))


@cache
def _address_of(opened: Database) -> str:
    identity = [opened.database, *(opened.connect_params.get(key) for key in ("host", "port"))]
    return "\0mlbench-" + hashlib.sha256(repr(identity).encode()).hexdigest()[:32]
