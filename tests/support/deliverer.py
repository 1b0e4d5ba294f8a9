"""Running delivery as the controller does: in a thread, or without ever waiting."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from peewee import Database

from mlbench_master.recording.delivery import SampleDelivery
from tests.support.known import known


@contextmanager
def delivering(delivery: SampleDelivery, database: Database) -> Iterator[None]:
    """Deliver in a thread of its own until the block ends."""
    stop = threading.Event()

    def run() -> None:
        with database.connection_context():  # this thread's connection
            delivery.run(stop, stop, lambda: None, idle_seconds=0.02)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Patience(threading.Event):
    """A stop event that never waits, notes how long it would have, and is set after some times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._times = times

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(known(timeout))
        return len(self.waits) > self._times
