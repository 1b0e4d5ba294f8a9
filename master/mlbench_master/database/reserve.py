"""Reserve on SQLite's disk: space for the state of runs when the disk is full."""

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

# Hundreds of requests per second check the free space, so the system is asked only this often.
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Reserve:
    """A file that reserves space on a database's disk.

    When the disk is nearly full, logs and samples are refused first. Then the file is deleted
    before the state of runs is written. It is created again once there is enough space. Threads
    and processes may share it.
    """

    path: Path
    size: int
    """Size of the file in bytes; 0 for no reserve."""

    def find_shortage(self) -> str:
        """Return why logs and samples are refused; empty if they are accepted."""
        if not self.size or (free := self.free()) >= self.size:
            return ""
        return (
            f"disk almost full: {free / 1e6:.1f} MB free in {self.path.parent}, "
            f"{self.size / 1e6:.0f} MB required for logs and samples; delete runs or free up space"
        )

    def make_room(self) -> None:
        """Delete the file if little space is free, or create it again if there is enough."""
        if not self.size:
            return
        if (free := self.free()) < self.size // 4:
            self.path.unlink(missing_ok=True)
        elif free >= 2 * self.size and not self.path.exists():
            # There is no reserve if the file system cannot allocate it.
            with suppress(OSError):
                file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                try:
                    os.posix_fallocate(file, 0, self.size)
                except OSError:
                    self.path.unlink(missing_ok=True)
                finally:
                    os.close(file)

    def free(self) -> int:
        """Return the free bytes of the disk, measured at most 0.1 s ago."""
        return _free_in(self.path.parent, int(time.monotonic() / _LOOK_SECONDS))


@lru_cache(maxsize=1)
def _free_in(folder: Path, now: int) -> int:
    """Return the free bytes; cached per interval, because the call lets other threads run first."""
    return shutil.disk_usage(folder).free
