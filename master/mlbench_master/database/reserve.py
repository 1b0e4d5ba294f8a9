"""The reserve on SQLite's disk: room that is kept for what must be written on a full one."""

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlbench_master.errors import ServiceUnavailableError

# Hundreds of requests a second look for room on the disk.
_LOOK_SECONDS = 0.1


class NoRoomError(ServiceUnavailableError):
    """The database's disk is too full for logs and samples."""


@dataclass(frozen=True)
class Reserve:
    """A file that keeps room on a database's disk, for what must be written on a full one.

    When the disk is nearly full, logs and samples are refused first. Then, before the state of runs
    is written, the file is deleted; it is made again once there is room. Threads and processes may
    share it.
    """

    path: Path
    size: int
    """Its bytes; 0 for no reserve."""

    def find_shortage(self) -> str:
        """Return why no logs and samples are taken; empty if they are."""
        if not self.size or (free := self.free()) >= self.size:
            return ""
        return (
            f"disk full: {free / 1e6:.1f} MB are free in {self.path.parent}, and below "
            f"{self.size / 1e6:.0f} MB no logs and samples are taken: delete runs, or make room"
        )

    def check_room(self) -> None:
        """Raise NoRoomError if less than the reserve is free."""
        if shortage := self.find_shortage():
            raise NoRoomError(f"{shortage}; nothing was stored")

    def make_room(self) -> None:
        """Delete the file if little is free besides, or make it again if much is."""
        if not self.size:
            return
        if (free := self.free()) < self.size // 4:
            self.path.unlink(missing_ok=True)
        elif free >= 2 * self.size and not self.path.exists():
            self._make()

    def _make(self) -> None:
        # If the file system cannot reserve room, or has none, there is no reserve.
        with suppress(OSError):
            file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(file, 0, self.size)
            except OSError:
                self.path.unlink(missing_ok=True)
            finally:
                os.close(file)

    def free(self) -> int:
        """Return the bytes that are free on the disk, or were a moment ago."""
        return _free_in(self.path.parent, int(time.monotonic() / _LOOK_SECONDS))


@lru_cache(maxsize=1)
def _free_in(folder: Path, now: int) -> int:
    """Ask the system, once in each interval: a thread that does lets others run before it."""
    return shutil.disk_usage(folder).free
