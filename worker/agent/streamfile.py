"""The files of a rank's streams, read while they grow, whatever the command does to them."""

import errno
import logging
import os
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from worker.agent.files import open_regular

log = logging.getLogger(__name__)

# So many bytes at the start of the file, and before where it was read to, are looked at again.
_MARK_BYTES = 64
# A command that appends leaves no hole. One that is longer is not read: it may have no end.
_LONGEST_HOLE_BYTES = 1 << 20
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
_ADVICE = "open it for appending ('a'), or use mlbench.Tracker"


class StreamFile(ABC):
    """A file that a command appends to.

    It is read by the descriptor with which it was made, so that losing its name loses no byte.
    What is missing, or no regular file, or cannot be read, has ended: it has no more bytes.
    Any thread may use it.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._restart()

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make an empty one.

        Raises:
            OSError: it cannot be made.
        """
        return cls(path, os.open(path, _CREATE, 0o600))

    @classmethod
    def find(cls, path: Path) -> Self:
        """Return the one that a former agent has left."""
        return cls(path, open_regular(path))

    @classmethod
    def missing(cls, path: Path) -> Self:
        """Return one that has no bytes, as it could not be made."""
        return cls(path, None)

    def append(self, data: bytes) -> None:
        """Add the agent's own words, in full or not at all.

        Raises:
            OSError: they cannot be written.
        """
        with self._lock:
            if self._descriptor is None:
                raise FileNotFoundError(self.path)
            before = os.fstat(self._descriptor).st_size
            try:
                written = os.write(self._descriptor, data)
                if written < len(data):
                    raise OSError(f"{self.path}: no space for {len(data)} bytes")
            except OSError:
                os.ftruncate(self._descriptor, before)
                raise
            self._pass(before, data)

    def read(self, offset: int, length: int) -> bytes:
        """Return the next bytes of the stream from an offset on, at most so many."""
        with self._lock:
            if self._descriptor is None:
                return b""
            try:
                return self._read(self._descriptor, offset, length)
            except OSError as error:
                self._give_up(f"cannot be read: {error.strerror}")
                return b""

    def size(self) -> int:
        """Return how many bytes the stream will have, if the command does nothing more.

        0 where it has ended early: what was shipped is all that there will be.
        """
        with self._lock:
            if self._descriptor is None:
                return 0
            try:
                return self._size(self._descriptor)
            except OSError as error:
                self._give_up(f"cannot be read: {error.strerror}")
                return 0

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    @abstractmethod
    def _read(self, descriptor: int, offset: int, length: int) -> bytes: ...

    @abstractmethod
    def _size(self, descriptor: int) -> int: ...

    def _give_up(self, why: str) -> None:
        """Take the stream for ended."""
        log.warning("%s %s: no more of it is read", self.path, why)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _restart(self) -> None:
        """Expect nothing of the bytes that the file has."""
        self._largest = self._passed = 0
        self._head = self._tail = b""

    def _pass(self, position: int, data: bytes) -> None:
        """Remember bytes of the file: they are expected to stay."""
        end = position + len(data)
        if end <= self._passed or not data:
            return
        if position <= len(self._head):
            self._head = (self._head[:position] + data)[:_MARK_BYTES]
        before = self._tail if position == self._passed else b""
        self._tail = (before + data)[-_MARK_BYTES:]
        self._passed, self._largest = end, max(self._largest, end)

    def _damage(self, descriptor: int) -> str:
        """Return what was done to the bytes that were there, in words; empty for nothing."""
        size = os.fstat(descriptor).st_size
        if size < self._largest:
            return f"was cut short from {self._largest:,} to {size:,} bytes"
        self._largest = size
        for mark, position in ((self._head, 0), (self._tail, self._passed - len(self._tail))):
            if os.pread(descriptor, len(mark), position) != mark:
                return "was overwritten"
        return ""

    def _take(self, descriptor: int, position: int, length: int) -> bytes:
        """Return bytes of the file, and remember them."""
        if _hole(descriptor, position) > _LONGEST_HOLE_BYTES:
            self._give_up("was made longer without being written")
            return b""
        data = os.pread(descriptor, length, position)
        self._pass(position, data)
        return data


class LogFile(StreamFile):
    """What a command prints.

    Where it cuts the file short, as a shell's ``> /dev/stderr`` does, the stream goes on with what
    the file holds from then on.
    """

    _begins_at = 0
    """The offset of the file's first byte in the stream."""

    def _read(self, descriptor: int, offset: int, length: int) -> bytes:
        self._follow_cut(descriptor, offset)
        if offset < self._begins_at:  # what was there before is gone
            self._begin_at(offset)
        return self._take(descriptor, offset - self._begins_at, length)

    def _size(self, descriptor: int) -> int:
        self._follow_cut(descriptor, self._begins_at + self._passed)
        return self._begins_at + os.fstat(descriptor).st_size

    def _follow_cut(self, descriptor: int, offset: int) -> None:
        if damage := self._damage(descriptor):
            log.warning("%s %s by the command: the stream goes on from there", self.path, damage)
            self._begin_at(offset)

    def _begin_at(self, offset: int) -> None:
        self._restart()
        self._begins_at = offset


class MetricsFile(StreamFile):
    """What a command records: it must stay as it is, and where it is."""

    failure = ""
    """What the command has done to it, in words, so that values are lost; empty if nothing."""

    def check(self) -> None:
        """Look once more whether all that was recorded is still there."""
        self.size()

    def _read(self, descriptor: int, offset: int, length: int) -> bytes:
        return self._take(descriptor, offset, length) if self._is_whole(descriptor) else b""

    def _size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size if self._is_whole(descriptor) else 0

    def _is_whole(self, descriptor: int) -> bool:
        damage = self._damage(descriptor) or self._replacement(descriptor)
        if damage:
            self._give_up(f"{damage} by the command: {_ADVICE}")
        return not damage

    def _replacement(self, descriptor: int) -> str:
        """Return whether something else has its name. Without a name it can still be written to."""
        try:
            named = self.path.lstat()
        except OSError:
            return ""
        return "" if os.path.samestat(named, os.fstat(descriptor)) else "was replaced"

    def _give_up(self, why: str) -> None:
        super()._give_up(why)
        self.failure = f"its metrics file {why}"


def _hole(descriptor: int, position: int) -> int:
    """Return how many bytes from a position on were never written."""
    size = os.fstat(descriptor).st_size
    if position >= size:
        return 0
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA) - position
    except OSError as error:
        return size - position if error.errno == errno.ENXIO else 0
