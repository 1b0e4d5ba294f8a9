"""Whether the database can be written, tested by writing."""

import threading
import time
from dataclasses import dataclass, field

from peewee import PeeweeException

from master.database import impatient
from master.models import Deletion
from mlbench.errors import MLBenchError

# A write that takes longer counts as failed.
_SECONDS = 2.0
# Anybody may ask, so a result is used again for this long.
_FRESH_SECONDS = 0.5
# The row is deleted in the same transaction, so nobody sees it.
_TRIED = "nobody"


class NotWritableError(MLBenchError):
    """The database cannot be written now."""


@dataclass
class WriteTest:
    """Tests whether the database can be written, not too often. Threads may share it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _problem: str | None = None
    _tried_at: float = float("-inf")

    def check(self) -> None:
        """Make sure that the database can be written.

        Raises:
            NotWritableError: it cannot be written.
        """
        with self._lock:
            if time.monotonic() - self._tried_at > _FRESH_SECONDS:
                self._problem = _try()
                self._tried_at = time.monotonic()
            problem = self._problem
        if problem is not None:
            raise NotWritableError(f"the database cannot be written: {problem}")


def _try() -> str | None:
    """Write a row and delete it; return what went wrong."""
    try:
        with impatient(_SECONDS):
            Deletion.create(owner=_TRIED)
            Deletion.delete_by_id(_TRIED)
    except PeeweeException as error:
        return str(error)
    return None
