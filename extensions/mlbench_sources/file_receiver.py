"""Follows files of other formats, which a worker's processes write while they run."""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from mlbench_sources import printed_values
from mlbench_sources.event_files import EventFiles
from mlbench_sources.mllog_receiver import MAX_EVENT_LENGTH, MLLog
from mlbench_worker.agent.sources import Line, Source, SourceContext
from mlbench_worker.agent.stream_files import open_regular

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
        self.events = EventFiles(context.folder, context.identity, context.root)
        stdout = OutputLines(context.stdout, MLLog(context.say).lines)
        files: list[OutputLines | EventFiles] = [stdout, self.events]
        self._seconds = _SECONDS
        if printed_values.are_requested(context):
            self._seconds = _PRINTED_SECONDS
            for stream in ("stdout", "stderr"):
                path = context.stdout.with_name(stream)
                values = printed_values.PrintedValues(context.say)
                # A progress bar ends its lines by a carriage return.
                files.append(OutputLines(path, values.lines, ends=b"\r\n"))
        self._say = context.say
        self._followed = [_Followed(file, context.append) for file in files]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str:
        """The reason for which values of the processes are lost; "" if none are lost."""
        failures = [self.events.failure, *(followed.failure for followed in self._followed)]
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
            for followed in self._followed:
                followed.pass_on()
        for followed in self._followed:
            followed.file.end()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for followed in self._followed:
            while not followed.pass_on() and time.monotonic() < deadline:
                time.sleep(0.2)
        if missed := self.events.not_read:
            self._say(
                f"mlbench: event files that are not recorded: {missed:,}. The processes that"
                " wrote them ended too soon to be known, and another rank used the same folder."
                " Start each rank in its own folder."
            )
        for followed in self._followed:
            followed.file.close()


@dataclass
class _Followed:
    """A file, and its lines to write to the metrics file, which are retried if that fails."""

    file: "OutputLines | EventFiles"
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
            self._unread = self.file.read()
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


class OutputLines:
    """The lines of a worker's stdout or stderr, followed as it grows."""

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes], Iterable[Line]],
        ends: bytes = b"\n",
    ) -> None:
        """Open the file.

        Args:
            path: the file of the output.
            parse: returns the lines of the metrics file for a line of output.
            ends: the bytes of which each ends a line.
        """
        self._file = open_regular(path)
        self._parse = parse
        self._ends = re.compile(b"[" + ends + b"]")
        self._position = 0
        self._rest = b""
        self._is_ending = False

    def read(self) -> Iterator[Line]:
        """Yield the lines of the metrics file for the next complete lines."""
        if self._file is None:
            return
        size = os.fstat(self._file).st_size
        if size < self._position:  # truncated by the command
            self._position, self._rest = 0, b""
        while self._position < size:
            data = os.pread(self._file, 1 << 20, self._position)
            self._position += len(data)
            *whole, rest = self._ends.split(self._rest + data)
            self._rest = rest[-MAX_EVENT_LENGTH:]
            for line in whole:
                yield from self._parse(line)
        if self._is_ending:
            rest, self._rest = self._rest, b""
            yield from self._parse(rest)

    def end(self) -> None:
        """Include the last line, which may be incomplete, in the next call of ``read``."""
        self._is_ending = True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
