"""Waking the controller: who leaves it work notifies it, so its threads may wait until then.

A notification is a datagram to a Unix socket that is named after the database, without a file. It
saves time and nothing else: the controller also looks by itself, as a datagram may be lost, or come
from a place that does not reach it.
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

Reason = Literal["work", "samples"]
# However often they are notified, threads look so often at most, as what comes gathers meanwhile: a
# request to Prometheus for each line would cost too much.
_LEAST_SECONDS: Final[Mapping[Reason, float]] = {"work": 0.1, "samples": 1.0}

_sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


class Waiter(Protocol):
    """What a thread waits with; a ``threading.Event`` that is set at the end is one."""

    def wait(self, seconds: float, /) -> bool:
        """Waiter for so many seconds at most, and return whether to end."""


class Waker:
    """Wakes the threads of the controller."""

    def __init__(self, stop: threading.Event) -> None:
        """Wake threads until ``stop`` is set; the database must be open."""
        self._stop = stop
        self._sleepers: list[_Waiter] = []
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.bind(_address_of(database.obj))
        except OSError:  # another process has the name: threads look by themselves
            receiver.close()
        else:
            threading.Thread(
                target=self._listen, args=(receiver,), name="waker", daemon=True
            ).start()

    def waiter(self, reason: Reason = "work") -> Waiter:
        """Return what one thread waits with until it is notified for a reason."""
        self._sleepers.append(_Waiter(self._stop, reason))
        return self._sleepers[-1]

    def stop(self) -> None:
        """Wake all threads, to end."""
        self._stop.set()
        for waiter in self._sleepers:
            waiter.notified.set()

    def _listen(self, receiver: socket.socket) -> None:
        while True:
            reason = receiver.recv(16).decode()
            for waiter in self._sleepers:
                if waiter.reason == reason:
                    waiter.notified.set()


class _Waiter:
    def __init__(self, stop: threading.Event, reason: Reason) -> None:
        self.notified = threading.Event()
        self.reason = reason
        self._stop = stop
        self._woke_at = float("-inf")

    def wait(self, seconds: float, /) -> bool:
        if self.notified.wait(seconds):
            again_at = self._woke_at + _LEAST_SECONDS[self.reason]
            self._stop.wait(min(seconds, again_at - time.monotonic()))
        self.notified.clear()
        self._woke_at = time.monotonic()
        return self._stop.is_set()


def notify(reason: Reason = "work") -> None:
    """Wake the controller; call this after the transaction that leaves it work."""
    with suppress(OSError):
        _sender.sendto(reason.encode(), _address_of(database.obj))


@cache
def _address_of(opened: Database) -> str:
    where = [opened.database, *(opened.connect_params.get(key) for key in ("host", "port"))]
    return "\0mlbench-" + hashlib.sha256(repr(where).encode()).hexdigest()[:32]
