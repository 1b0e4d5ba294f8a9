"""The two files of the local pool: the wanted number of workers, and the workers there are."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mlbench.home import Home, write_atomically


@dataclass(frozen=True)
class LocalWorker:
    """A worker process of the local stack."""

    name: str
    alive: bool
    trouble: str = ""
    """Why it is not alive; empty if it is."""
    port: int = 0
    """Where its agent is woken, and serves its metrics."""


@dataclass(frozen=True)
class PoolFiles:
    """Reads and writes them: the controller sets the number, the supervisor the workers."""

    home: Home

    def write_wanted(self, workers: int) -> None:
        """Set the wanted number of workers."""
        if self.read_wanted() != workers:
            write_atomically(self.home.pool_spec, json.dumps({"workers": workers}))

    def read_wanted(self) -> int | None:
        """Return the wanted number of workers, or None before the controller has set it."""
        try:
            workers: int = json.loads(self.home.pool_spec.read_text())["workers"]
        except (FileNotFoundError, ValueError):  # the latter after a power cut
            return None
        return workers

    def write_status(self, workers: Sequence[LocalWorker]) -> None:
        """Set the workers there are."""
        write_atomically(self.home.pool_status, json.dumps([asdict(worker) for worker in workers]))

    def read_status(self) -> list[LocalWorker]:
        """Return the workers there are."""
        try:
            found = json.loads(self.home.pool_status.read_text())
        except (FileNotFoundError, ValueError):  # the latter after a power cut
            return []
        return [LocalWorker(**worker) for worker in found]
