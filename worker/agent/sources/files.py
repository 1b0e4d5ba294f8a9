"""What a worker's processes write to files of other formats, followed while they run."""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from worker.agent.sources.loopback import Line
from worker.agent.sources.mllog import Stdout
from worker.agent.sources.tensorboard import EventFiles

log = logging.getLogger(__name__)

_SECONDS = 1.0
_LINES_AT_ONCE = 1000


class Follower:
    """Reads MLPerf's lines on stdout, and event files, once a second, until it is closed."""

    def __init__(
        self, stdout: Path, folder: Path, append: Callable[[Sequence[Line]], None]
    ) -> None:
        """Begin; ``append`` writes lines into the metrics file, or raises an OSError."""
        self._append = append
        self._log = Stdout(stdout)
        self._events = EventFiles(folder)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read to the end of what the processes, which have ended, wrote."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ending.wait(_SECONDS):
                self._write(self._log.read())
                self._write(self._events.read())
            while lines := self._log.read():
                self._write(lines)
            self._write(self._events.read_rest())
        except Exception:
            log.exception("no more is read of what the processes write elsewhere")
        finally:
            self._log.close()
            self._events.close()

    def _write(self, lines: Iterable[Line]) -> None:
        left = iter(lines)
        while some := list(islice(left, _LINES_AT_ONCE)):
            self._append(some)
