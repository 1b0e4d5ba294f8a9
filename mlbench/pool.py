"""The two files of the local pool: how many workers there should be, and which there are."""

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


@dataclass(frozen=True)
class PoolFiles:
    """The controller writes the number of workers, the supervisor which there are."""

    home: Home

    def write_wanted(self, workers: int) -> None:
        """Set how many workers there should be."""
        if self.read_wanted() != workers:
            write_atomically(self.home.pool_spec, json.dumps({"workers": workers}))

    def read_wanted(self) -> int | None:
        """Return how many workers there should be, or None before the controller has set it."""
        try:
            workers: int = json.loads(self.home.pool_spec.read_text())["workers"]
        except (FileNotFoundError, ValueError):  # the latter after a power cut
            return None
        return workers

    def write_status(self, workers: Sequence[LocalWorker]) -> None:
        """Set which workers there are."""
        write_atomically(self.home.pool_status, json.dumps([asdict(worker) for worker in workers]))

    def read_status(self) -> list[LocalWorker]:
        """Return which workers there are."""
        try:
            found = json.loads(self.home.pool_status.read_text())
        except (FileNotFoundError, ValueError):  # the latter after a power cut
            return []
        return [LocalWorker(**worker) for worker in found]
