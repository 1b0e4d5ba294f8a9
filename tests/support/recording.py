"""Recording as the controller does it: index received lines, then export them to Prometheus."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from peewee import Database

from mlbench_master.recording.export import Exporter
from mlbench_master.recording.indexing import Indexer
from mlbench_master.recording.remote_write import RemoteWriter
from mlbench_master.recording.streams import waiting_bytes
from mlbench_master.settings import InstallationLimits
from tests.support.known import known


@dataclass(frozen=True)
class Recording:
    """The two steps from a received line to a sample in Prometheus."""

    indexer: Indexer
    exporter: Exporter

    @classmethod
    def to(cls, writer: RemoteWriter, most_series: int = InstallationLimits.series) -> "Recording":
        return cls(Indexer(most_series), Exporter(writer))

    def index_all(self) -> None:
        remaining_bytes = None
        while remaining_bytes != (remaining_bytes := waiting_bytes()):
            self.indexer.index_waiting()

    def export_all(self) -> None:
        while self.exporter.export_waiting():
            pass

    def run_all(self) -> None:
        """Index all waiting lines, and export them."""
        self.index_all()
        self.export_all()

    @contextmanager
    def running(self, database: Database) -> Iterator[None]:
        """Index and export in separate threads until the block ends."""
        stop = threading.Event()

        def index() -> None:
            with database.connection_context():
                self.indexer.run(stop, idle_seconds=0.02)

        def export() -> None:
            with database.connection_context():
                self.exporter.run(stop, stop, lambda: None, idle_seconds=0.02)

        threads = [threading.Thread(target=step) for step in (index, export)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()


class Patience(threading.Event):
    """A stop event that records timeouts instead of waiting, and is set after ``times`` calls."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._times = times

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(known(timeout))
        return len(self.waits) > self._times
