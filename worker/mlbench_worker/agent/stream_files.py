"""The agent's files, read while a command may change them in any way.

A stream's file is read through the descriptor that created it, so that its bytes survive a removal
or renaming. Bytes that were read are checked again, to detect a command that changes them.
"""

import contextlib
import errno
import json
import logging
import os
import shutil
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mlbench.contract.atomic_files import replacing

log = logging.getLogger(__name__)

_MARK_BYTES = 64
"""Number of bytes checked again, at the start of a file and at the end of the part already read."""
_ENDED = -1
"""Value instead of a descriptor once a stream has ended."""


def create_stream(path: Path) -> int:
    """Create a file for a stream, and return a descriptor, or raise an OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def open_regular(path: Path, folder: int | None = None) -> int | None:
    """Return a descriptor to read a regular file; None if ``path`` is not one.

    ``folder`` is a descriptor of the folder to which the path is relative.
    """
    # Links are not followed, and opening a pipe does not block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, dir_fd=folder)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def read_regular(path: Path, most: int, *, from_end: bool = False) -> bytes | None:
    """Return the first, or the last, ``most`` bytes of a regular file; None if it is not one."""
    descriptor = open_regular(path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if from_end:
            file.seek(max(0, os.fstat(descriptor).st_size - most))
        return file.read(most)


def text_of(path: Path) -> str:
    """Return the text of a system file; "" if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: it is not a regular file, longer than 4 MiB, or not JSON.
    """
    content = read_regular(path, 4 << 20)
    if content is None:
        if not os.path.lexists(path):
            raise FileNotFoundError(path)
        raise ValueError(f"{path} is no file that can be read")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


def write_json(path: Path, content: object) -> None:
    """Replace a file atomically by one that only this user may read, or raise an OSError."""
    with replacing(path, 0o600) as file:
        file.write(json.dumps(content).encode())


def own_folder(path: Path) -> None:
    """Make a folder that only this user may enter, replacing anything else, or raise an OSError."""
    if os.path.lexists(path) and not _is_folder(path):
        path.unlink()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def remove(path: Path) -> None:
    """Remove a folder with its content, or a file; log errors.

    Files that a command leaves behind must not keep the next one from starting.
    """
    try:
        if not _is_folder(path):
            path.unlink()
            return
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():  # some caches have folders without permission to write
            path.chmod(0o700)
            for place, folders, _ in os.walk(path):
                for inner in (Path(place, name) for name in folders):
                    if _is_folder(inner):
                        with contextlib.suppress(OSError):
                            inner.chmod(0o700)
            shutil.rmtree(path)
    except (OSError, RecursionError) as error:
        log.warning("cannot remove %s: %s", path, error)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


class StreamFile:
    """A file that a command appends to. Any thread may use it.

    The stream has ended if the file is missing, not a regular file, or not readable, or if the
    command changes bytes that were read.
    """

    damage = ""
    """The reason for which the stream ended early; "" while it has not."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        """``descriptor``: the result of ``create_stream`` or ``open_regular``."""
        self.path = path
        self._descriptor = _ENDED if descriptor is None else descriptor
        self._lock = threading.RLock()
        self._begin_at(0)

    def append(self, data: bytes) -> None:
        """Append text of the agent completely, or raise an OSError."""
        with self._lock:
            if self._descriptor == _ENDED:
                raise FileNotFoundError(self.path)
            written = os.write(self._descriptor, data)
            # The end of these bytes, even if other processes have appended meanwhile.
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            if written < len(data):
                if os.fstat(self._descriptor).st_size == end:
                    os.ftruncate(self._descriptor, end - written)
                raise OSError(f"{self.path}: no space for {len(data)} bytes")
            self._remember(end - written, data)

    def read(self, offset: int, length: int) -> bytes:
        """Return at most ``length`` bytes of the stream from an offset on."""
        with self._lock, self._ending_on_error():
            if self._is_readable_at(offset):
                if offset < self._begins_at:  # the earlier bytes are lost
                    self._begin_at(offset)
                return self._take(offset - self._begins_at, length)
        return b""

    def size(self) -> int:
        """Return the stream's size in bytes; 0 if it ended early."""
        with self._lock, self._ending_on_error():
            if self._is_readable_at(self._begins_at + self._passed):
                return self._begins_at + os.fstat(self._descriptor).st_size
        return 0

    def close(self) -> None:
        with self._lock:
            if self._descriptor != _ENDED:
                os.close(self._descriptor)
                self._descriptor = _ENDED

    @contextlib.contextmanager
    def _ending_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._give_up(f"cannot be read: {error.strerror}")

    def _give_up(self, damage: str) -> None:
        log.warning("%s %s: no more of it is read", self.path, damage)
        self.damage = damage
        self.close()

    def _is_readable_at(self, offset: int) -> bool:
        """Check that the stream has not ended, nor ends now because its file is damaged."""
        if self._descriptor != _ENDED and (damage := self._find_damage()):
            self._give_up(damage)
        return self._descriptor != _ENDED

    def _begin_at(self, offset: int) -> None:
        """Treat the file's first byte as the given offset of the stream; forget earlier bytes."""
        self._begins_at = offset
        self._largest = self._passed = 0
        self._head = self._tail = b""

    def _remember(self, position: int, data: bytes) -> None:
        """Remember bytes of the file, to check that they stay."""
        end = position + len(data)
        if end <= self._passed or not data:
            return
        if position <= len(self._head):
            self._head = (self._head[:position] + data)[:_MARK_BYTES]
        before = self._tail if position == self._passed else b""
        self._tail = (before + data)[-_MARK_BYTES:]
        self._passed, self._largest = end, max(self._largest, end)

    def _find_damage(self) -> str:
        """Describe damage to bytes that were read; "" without damage."""
        size = os.fstat(self._descriptor).st_size
        if size < self._largest:
            return f"was cut short from {self._largest:,} to {size:,} bytes"
        self._largest = size
        for mark, position in ((self._head, 0), (self._tail, self._passed - len(self._tail))):
            if os.pread(self._descriptor, len(mark), position) != mark:
                return "was overwritten"
        return ""

    def _take(self, position: int, length: int) -> bytes:
        """Read bytes of the file, and remember them."""
        # A command that appends leaves no hole, and a hole may be huge.
        size, hole = os.fstat(self._descriptor).st_size, 0
        if position < size:
            try:
                hole = os.lseek(self._descriptor, position, os.SEEK_DATA) - position
            except OSError as error:
                hole = size - position if error.errno == errno.ENXIO else 0
        if hole > 1 << 20:
            self._give_up("was made longer without being written")
            return b""
        data = os.pread(self._descriptor, length, position)
        self._remember(position, data)
        return data


class LogFile(StreamFile):
    """The output of a command.

    If the command truncates the file, for example by ``> /dev/stderr`` in a shell, the stream
    continues with the new content. Secrets are replaced by asterisks.
    """

    _secrets: Sequence[bytes] = ()

    def hide(self, secrets: Sequence[str]) -> None:
        """Replace secrets by asterisks from now on."""
        self._secrets = [secret.encode() for secret in secrets]

    def _is_readable_at(self, offset: int) -> bool:
        if self._descriptor != _ENDED and (damage := self._find_damage()):
            log.warning("%s %s by the command: the stream continues from there", self.path, damage)
            self._begin_at(offset)
        return self._descriptor != _ENDED

    def _take(self, position: int, length: int) -> bytes:
        data = super()._take(position, length)
        for secret in self._secrets if data else ():
            # The secret may begin before this part, and end after it.
            reach = len(secret) - 1
            before = os.pread(self._descriptor, min(reach, position), max(0, position - reach))
            after = os.pread(self._descriptor, reach, position + len(data))
            shown = (before + data + after).replace(secret, b"*" * len(secret))
            data = shown[len(before) : len(before) + len(data)]
        return data


class MetricsFile(StreamFile):
    """The metrics of a command, which must not be changed once they are written."""

    def _find_damage(self) -> str:
        damage = super()._find_damage()
        with contextlib.suppress(OSError):  # a removed file can still be written to
            if not os.path.samestat(self.path.lstat(), os.fstat(self._descriptor)):
                damage = damage or "was replaced"
        advice = "by the command: open it for appending ('a'), or use mlbench.Tracker"
        return damage and f"{damage} {advice}"
