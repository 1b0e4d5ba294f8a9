"""Group commit: what several threads write at a time shares a transaction."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Where several threads write, this is waited for the rest of them: a third of a transaction's time.
_GATHER_SECONDS = 0.0005
PATIENT_SECONDS = 0.003
"""For who has time: a thousand agents together then take fewer transactions."""


@dataclass
class _Entry:
    item: Any
    pending: threading.Lock = field(default_factory=threading.Lock)
    """Held until it is written, or its thread is the one to write; an event takes longer."""
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class GroupCommit:
    """Writes items one group after the other: all that threads bring while one is being written."""

    def __init__(
        self,
        write_all: Callable[[Sequence[Any]], Sequence[Any]],
        gather_seconds: float = _GATHER_SECONDS,
    ) -> None:
        """Write by ``write_all``, which returns a result for each item.

        If it raises, it is called again with each of the items alone.
        """
        self._write_all = write_all
        self._gather_seconds = gather_seconds
        self._lock = threading.Lock()
        self._waiting: list[_Entry] = []
        self._is_writing = False
        self._was_shared = False

    def write(self, item: Any) -> Any:
        """Write an item, and return its result.

        Raises:
            Exception: what ``write_all`` raised for this item.
        """
        entry = _Entry(item)
        entry.pending.acquire()
        with self._lock:
            self._waiting.append(entry)
            is_first, self._is_writing = not self._is_writing, True
        if not is_first:
            entry.pending.acquire()
        if not entry.done:
            self._write_waiting()
        if entry.error is not None:
            raise entry.error
        return entry.result

    def _write_waiting(self) -> None:
        """Write all that waits; then have the thread of what came meanwhile write the rest."""
        if self._was_shared:
            time.sleep(self._gather_seconds)
        with self._lock:
            group, self._waiting = self._waiting, []
            self._was_shared = len(group) > 1
        self._write(group)
        with self._lock:
            self._is_writing = bool(self._waiting)
            if self._waiting:
                self._waiting[0].pending.release()
        for entry in group[1:]:  # the first is this thread's own
            entry.pending.release()

    def _write(self, group: Sequence[_Entry]) -> None:
        try:
            results = self._write_all([entry.item for entry in group])
        except BaseException as error:
            if len(group) > 1:
                for entry in group:
                    self._write([entry])
                return
            results = [None]
            group[0].error = error
        for entry, result in zip(group, results, strict=True):
            entry.result, entry.done = result, True
