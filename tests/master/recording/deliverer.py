"""Running delivery as the controller does: in a thread, or without ever waiting."""

import threading
from collections.abc import Callable

from peewee import Database

from master.recording.delivery import Delivery


class Deliverer:
    """Delivers in a thread of its own until it is ended."""

    def __init__(
        self, delivery: Delivery, database: Database, on_recovery: Callable[[], None] = lambda: None
    ) -> None:
        self._stop = threading.Event()

        def run() -> None:
            delivery.run(self._stop, on_recovery, idle_seconds=0.02)
            database.close()  # this thread's connection

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self) -> None:
        """Stop, and wait until it has."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> "Deliverer":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Patience(threading.Event):
    """A stop event that never waits, notes how long it would have, and is set after some times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._times = times

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        return len(self.waits) > self._times
