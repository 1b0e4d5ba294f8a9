"""Follows files of other formats, which a worker's processes write while they run."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mlbench_sources import printed_values
from mlbench_sources.event_files import EventFiles
from mlbench_sources.mllog_receiver import MLLog, OutputLines
from mlbench_worker.agent.sources import Line, Source, SourceContext

log = logging.getLogger(__name__)

_SECONDS = 1.0
# A printed value has the time at which it is read.
_PRINTED_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0
"""Time to wait at the end for space on a full disk."""


class Follower(Source):
    """Reads MLPerf's lines, printed values and event files once a second, until it is closed."""

    def __init__(self, context: SourceContext) -> None:
        """Start to follow the rank's stdout, and event files below its working folder."""
        self._outputs = [OutputLines(context.stdout, MLLog(context.say).lines)]
        self._seconds = _SECONDS
        if printed_values.are_requested(context):
            self._seconds = _PRINTED_SECONDS
            for stream in ("stdout", "stderr"):
                path = context.stdout.with_name(stream)
                values = printed_values.PrintedValues(context.say)
                # A progress bar ends its lines by a carriage return.
                self._outputs.append(OutputLines(path, values.lines, ends=b"\r\n"))
        self.events = EventFiles(context.folder, context.identity, context.root)
        self._say = context.say
        self._sources = [
            *(_Followed(output.read, context.append) for output in self._outputs),
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
        while not self._ending.wait(self._seconds):
            for source in self._sources:
                source.pass_on()
        for output in self._outputs:
            output.end()
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
        for output in self._outputs:
            output.close()
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
