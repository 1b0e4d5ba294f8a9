"""What a worker's processes write to files of other formats, followed while they run."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from mlbench_worker.agent.sources.loopback import Line
from mlbench_worker.agent.sources.mllog import Stdout
from mlbench_worker.agent.sources.tensorboard import EventFiles

log = logging.getLogger(__name__)

_SECONDS = 1.0
_LINES_AT_ONCE = 1000
# At the end, for room on a disk that is full.
_PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.2


class Follower:
    """Reads MLPerf's lines on stdout, and event files, once a second, until it is closed."""

    def __init__(
        self,
        stdout: Path,
        folder: Path,
        append: Callable[[Sequence[Line]], None],
        say: Callable[[str], None],
        variables: Mapping[str, str],
        root: int | None = None,
    ) -> None:
        """Begin; ``append`` writes lines into the metrics file, or raises an OSError.

        ``say`` writes a sentence for the user to stderr.
        The writers of event files have ``variables`` in their environment, but ``root``.
        """
        self._log = Stdout(stdout, say)
        self._events = EventFiles(folder, variables, root)
        self._say = say
        self._sources = [_Source(self._log.read, append), _Source(self._events.read, append)]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str:
        """Why values that the processes wrote are lost; "" if none are."""
        failures = [self._events.failure, *(source.failure for source in self._sources)]
        return next((failure for failure in failures if failure), "")

    @property
    def not_read(self) -> int:
        """Number of event files that are not recorded."""
        return self._events.not_read

    @property
    def damaged(self) -> int:
        """Number of event files that could not be read to their end."""
        return self._events.damaged

    def close(self) -> None:
        """Read to the end of what the processes, which have ended, wrote."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_SECONDS):
            for source in self._sources:
                source.pass_on()
        self._log.end()
        self._events.end()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for source in self._sources:
            while not source.pass_on() and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
        if self.not_read:
            self._say(
                f"mlbench: event files that are not recorded: {self.not_read:,}. The processes that"
                " wrote them ended too soon to be known, and another rank used the same folder."
                " Start each rank in its own folder."
            )
        self._log.close()
        self._events.close()


@dataclass
class _Source:
    """Lines on their way into the metrics file; those that it did not take are tried again."""

    _read: Callable[[], Iterable[Line]]
    _append: Callable[[Sequence[Line]], None]
    _left: Iterable[Line] = ()
    _some: list[Line] = field(default_factory=list)
    _broken: str = ""
    _unwritten: str = ""

    @property
    def failure(self) -> str:
        return self._broken or self._unwritten

    def pass_on(self) -> bool:
        """Write what was left, and what is new; tell if that is done."""
        try:
            self._write()
            self._left = iter(self._read())
            self._write()
        except OSError as error:
            self._unwritten = f"values that its processes wrote to files are lost: {error}"
            return False
        except Exception as error:
            log.exception("what the processes wrote to a file cannot be read")
            self._broken = f"values that its processes wrote to files cannot be read: {error}"
        self._unwritten = ""
        return True

    def _write(self) -> None:
        while True:
            for line in islice(self._left, _LINES_AT_ONCE - len(self._some)):
                self._some.append(line)  # one by one: what comes before an error stays
            if not self._some:
                return
            self._append(self._some)
            self._some = []
