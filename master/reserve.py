"""The reserve: room on the database's disk for what must be written though the disk is full.

A file beside the database takes the room up. When the disk is nearly full, logs and samples are
refused first; then, before the state of runs is written, the file is given up. It is made again
once there is room for it.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from master.errors import ServiceUnavailableError


class NoRoomError(ServiceUnavailableError):
    """The disk is too full for logs and samples."""


@dataclass(frozen=True)
class Reserve:
    """So many bytes beside a database. Threads and processes may share it."""

    path: Path
    size: int
    """0 for none."""

    @classmethod
    def beside(cls, database: str, size: int) -> "Reserve":
        """Return the reserve of a database's file."""
        return cls(Path(f"{database}.reserve"), size)

    def check_room(self) -> None:
        """Make sure that there is room for logs and samples.

        Raises:
            NoRoomError: less than the reserve is free.
        """
        if self.size and (free := self._free()) < self.size:
            raise NoRoomError(
                f"the disk of the database is full: {free} bytes are free, and below {self.size} "
                "no logs and samples are taken: delete runs, or make room; nothing was stored"
            )

    def make_room(self) -> None:
        """Give the reserve up where little is free besides, or make it where much is."""
        if not self.size:
            return
        free = self._free()
        if free < self.size // 4:
            self.path.unlink(missing_ok=True)
        elif free >= 2 * self.size and not self.path.exists():
            self._make()

    def _make(self) -> None:
        # A disk that cannot set room aside, or that somebody else just filled, goes without.
        with suppress(OSError):
            file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                os.posix_fallocate(file, 0, self.size)
            except OSError:
                self.path.unlink(missing_ok=True)
            finally:
                os.close(file)

    def _free(self) -> int:
        found = os.statvfs(self.path.parent)
        return found.f_bavail * found.f_frsize
