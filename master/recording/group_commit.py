"""Group commit: what several threads want to write at the same time is one transaction."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass
class _Entry(Generic[Item]):
    item: Item
    done: bool = False
    error: BaseException | None = None


class GroupCommit(Generic[Item]):
    """Writes items, together with those that other threads bring while it is busy."""

    def __init__(self, write_all: Callable[[Sequence[Item]], None]) -> None:
        """Write by ``write_all``: all of its items, or, with an exception, any part of them."""
        self._write_all = write_all
        self._waiting: deque[_Entry[Item]] = deque()
        self._writing = threading.Lock()

    def write(self, item: Item) -> None:
        """Write an item; once this returns, it is written.

        Raises:
            Exception: what ``write_all`` raised for it; other items have errors of their own.
        """
        entry = _Entry(item)
        self._waiting.append(entry)
        with self._writing:
            # By now, another thread may have written it.
            if not entry.done:
                self._write([self._waiting.popleft() for _ in range(len(self._waiting))])
        if entry.error is not None:
            raise entry.error

    def _write(self, batch: Sequence[_Entry[Item]]) -> None:
        try:
            self._write_all([entry.item for entry in batch])
        except BaseException as error:
            if len(batch) > 1:
                for entry in batch:
                    self._write([entry])
                return
            batch[0].error = error
        for entry in batch:
            entry.done = True
