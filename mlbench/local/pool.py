"""The two files of the local pool: the desired number of workers, and the current workers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlbench.contract.atomic_files import write_atomically
from mlbench.local.home import Home


@dataclass(frozen=True)
class LocalWorker:
    """A worker process of the local stack."""

    name: str
    alive: bool
    trouble: str = ""
    """Why the worker is not alive; empty if it is."""
    port: int = 0
    """Port on which the agent is woken, and serves its metrics."""


@dataclass(frozen=True)
class PoolFiles:
    """Reads and writes them: the controller sets the number, the supervisor the workers."""

    home: Home

    def write_wanted(self, workers: int) -> None:
        """Set the desired number of workers."""
        if self.read_wanted() != workers:
            write_atomically(self.home.pool_spec, json.dumps({"workers": workers}))

    def read_wanted(self) -> int | None:
        """Return the desired number of workers; None before the controller has set it."""
        spec = _read(self.home.pool_spec)
        return int(spec["workers"]) if spec else None

    def write_status(self, workers: Sequence[LocalWorker]) -> None:
        """Set the current workers."""
        write_atomically(self.home.pool_status, json.dumps([asdict(worker) for worker in workers]))

    def read_status(self) -> list[LocalWorker]:
        """Return the current workers."""
        try:
            status = self.home.pool_status.stat()
        except FileNotFoundError:
            return []
        return [*_read_workers(self.home.pool_status, status.st_ino, status.st_mtime_ns)]


@lru_cache(maxsize=1)
def _read_workers(file: Path, inode: int, changed_ns: int) -> tuple[LocalWorker, ...]:
    """Read the workers, once for each replacement of the file."""
    return tuple(LocalWorker(**worker) for worker in _read(file) or ())


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, ValueError):  # the latter after a power cut
        return None
