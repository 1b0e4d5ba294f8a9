"""Group commit: concurrent writes of several threads share a transaction."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

PATIENT_SECONDS = 0.003
"""Longer wait for writers without hurry: a thousand agents then need fewer transactions."""


@dataclass
class _Entry:
    item: Any
    pending: threading.Lock = field(default_factory=threading.Lock)
    """Held until the item is written, or its thread is the next writer. Faster than an event."""
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class GroupCommit:
    """Writes items in groups: those that threads add while the previous group is written."""

    def __init__(
        self, write_all: Callable[[Sequence[Any]], Sequence[Any]], gather_seconds: float = 0.0005
    ) -> None:
        """Write items by ``write_all``, which returns a result for each.

        If it raises, it is called again for each item alone. ``gather_seconds``: wait for other
        threads, if several write; the default is a third of a transaction's time.
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
            Exception: raised by ``write_all`` for this item.
        """
        entry = _Entry(item)
        entry.pending.acquire()
        with self._lock:
            self._waiting.append(entry)
            is_first, self._is_writing = not self._is_writing, True
        if not is_first:
            entry.pending.acquire()
        if not entry.done:
            # Write all waiting items. Then the thread of the first later item writes the rest.
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
            for other in group[1:]:  # the first is this thread's own
                other.pending.release()
        if entry.error is not None:
            raise entry.error
        return entry.result

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
