"""Whether the database can be written: asked by writing."""

import threading
import time
from dataclasses import dataclass, field

from peewee import PeeweeException

from master.database import impatient
from master.models import Deletion
from mlbench.errors import MLBenchError

# Who waits longer for a write may as well be told that there is none.
_SECONDS = 2.0
# Anybody may ask: what was found this lately still holds.
_FRESH_SECONDS = 0.5
# A row that nobody sees, as it is gone when the transaction ends.
_TRIED = "nobody"


class NotWritableError(MLBenchError):
    """The database cannot be written now."""


@dataclass
class WriteTest:
    """Tries to write, at most now and then. Threads may share it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _problem: str | None = None
    _tried_at: float = float("-inf")

    def check(self) -> None:
        """Make sure that the database can be written.

        Raises:
            NotWritableError: it cannot; the text says why.
        """
        with self._lock:
            if time.monotonic() - self._tried_at > _FRESH_SECONDS:
                self._problem = _try()
                self._tried_at = time.monotonic()
            problem = self._problem
        if problem is not None:
            raise NotWritableError(f"the database cannot be written: {problem}")


def _try() -> str | None:
    """Write a row and take it back; return what went wrong."""
    try:
        with impatient(_SECONDS):
            Deletion.create(owner=_TRIED)
            Deletion.delete_by_id(_TRIED)
    except PeeweeException as error:
        return str(error)
    return None
