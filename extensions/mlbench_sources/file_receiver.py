"""Follows files of other formats, which a worker's processes write while they run."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mlbench_sources.event_files import EventFiles
from mlbench_sources.mllog_receiver import Stdout
from mlbench_worker.agent.sources import Line, Source, SourceContext

log = logging.getLogger(__name__)

_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
"""Time to wait at the end for space on a full disk."""


class Follower(Source):
    """Reads MLPerf's lines on stdout, and event files, once a second, until it is closed."""

    def __init__(self, context: SourceContext) -> None:
        """Start to follow the rank's stdout, and event files below its working folder."""
        self._log = Stdout(context.stdout, context.say)
        self.events = EventFiles(context.folder, context.identity, context.root)
        self._say = context.say
        self._sources = [
            _Followed(self._log.read, context.append),
            _Followed(self.events.read, context.append),
        ]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str:
        """The reason for which values of the processes are lost; "" if none are lost."""
        failures = [self.events.failure, *(source.failure for source in self._sources)]
        return next((failure for failure in failures if failure), "")

    @property
    def not_recorded(self) -> Mapping[str, int]:
        return {"unread_files": self.events.not_read + self.events.damaged}

    def close(self) -> None:
        """Read the files of the processes, which have ended, to their end."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_SECONDS):
            for source in self._sources:
                source.pass_on()
        self._log.end()
        self.events.end()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for source in self._sources:
            while not source.pass_on() and time.monotonic() < deadline:
                time.sleep(0.2)
        if missed := self.events.not_read:
            self._say(
                f"mlbench: event files that are not recorded: {missed:,}. The processes that"
                " wrote them ended too soon to be known, and another rank used the same folder."
                " Start each rank in its own folder."
            )
        self._log.close()
        self.events.close()


@dataclass
class _Followed:
    """Lines to write to the metrics file. Lines that could not be written are retried."""

    _read: Callable[[], Iterable[Line]]
    _append: Callable[[Sequence[Line]], None]
    _unread: Iterable[Line] = ()
    _batch: list[Line] = field(default_factory=list)
    _broken: str = ""
    _unwritten: str = ""

    @property
    def failure(self) -> str:
        return self._broken or self._unwritten

    def pass_on(self) -> bool:
        """Write remaining and new lines; return whether all are written."""
        try:
            self._write()
            self._unread = iter(self._read())
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
            for line in islice(self._unread, 1000 - len(self._batch)):
                self._batch.append(line)  # one by one, to keep the lines before an error
            if not self._batch:
                return
            self._append(self._batch)
            self._batch = []
