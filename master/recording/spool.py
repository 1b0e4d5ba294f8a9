"""The spool: what waits for Prometheus, and the bound on it."""

import threading
import time
from dataclasses import dataclass, field

from peewee import fn

from master.database import NoRoomError, check_room
from master.models import Stream
from master.recording.streams import OF_SAMPLES
from mlbench.errors import MLBenchError

# What was counted this lately still holds, near enough.
_FRESH_SECONDS = 0.5


class SpoolFullError(MLBenchError):
    """No more samples can be taken now: Prometheus must take some first."""


def waiting_bytes(owner: str | None = None) -> int:
    """Return how many bytes of samples have not been delivered: an owner's, or all."""
    waiting = Stream.select(fn.SUM(Stream.size - Stream.delivered)).where(
        OF_SAMPLES, Stream.delivered < Stream.size
    )
    if owner is not None:
        waiting = waiting.where(Stream.owner == owner)
    return int(waiting.scalar() or 0)


def has_room(limit_bytes: int) -> bool:
    """Return whether logs and samples can be taken: of samples, so many bytes may wait."""
    try:
        check_room()
    except NoRoomError:
        return False
    return waiting_bytes() <= limit_bytes


@dataclass
class Spool:
    """Says whether more samples can be taken. Threads may share it."""

    limit_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: int = 0
    _counted_at: float = float("-inf")

    def check_room(self) -> None:
        """Make sure that samples can be taken.

        Raises:
            SpoolFullError: more than ``limit_bytes`` wait already.
            NoRoomError: the disk is full.
        """
        check_room()
        with self._lock:
            if time.monotonic() - self._counted_at > _FRESH_SECONDS:
                self._waiting, self._counted_at = waiting_bytes(), time.monotonic()
        if self._waiting > self.limit_bytes:
            raise SpoolFullError(
                f"{self._waiting} bytes of samples wait for Prometheus, and at most "
                f"{self.limit_bytes} may: try again later, nothing was stored"
            )
