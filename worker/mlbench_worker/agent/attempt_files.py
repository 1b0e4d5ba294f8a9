"""The files of an attempt: its streams, and the folders for counters, output and checkpoints."""

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench.contract.names import StreamName
from mlbench.tracking.totals import FILE_BYTES, Totals
from mlbench_worker.agent.stream_files import LogFile, MetricsFile, StreamFile, read_regular

COUNTERS, DIAGNOSIS = "counters", "diagnosis"
OUTPUT = "output"
"""Folder next to those of the attempts, so that a file in it outlives its attempt."""
_TOTALS = re.compile(r".+\.(0|[1-9][0-9]{0,4})\.[0-9]+\.totals")  # of names.totals_file
_MAX_FILES, _MAX_RANKS = 10_000, 64
"""Limits for reading totals: the processes may leave any files in the folder."""


class AttemptFiles:
    """The folder of an attempt of a rank, with its streams."""

    def __init__(
        self, folder: Path, assignment: Assignment, open_stream: Callable[[Path], int | None]
    ) -> None:
        self.folder = folder
        self.counters = folder / COUNTERS
        """The folder of prometheus-client's files of the process."""
        self.diagnosis = folder / DIAGNOSIS
        """Folder with a pipe for the stacks of the rank's Pythons, and with PyTorch's sockets."""
        self.error_file = folder / "error.json"
        """File for the error of torchrun, or of a process whose main function is a ``record``."""
        self.output = folder.parent / OUTPUT / folder.name
        """Folder for the rank's files. Files that are too large to be shipped stay there."""
        self.assignment = assignment
        stdout, stderr, metrics, files = (self.file(stream) for stream in names.STREAMS)
        self._metrics = MetricsFile(metrics, open_stream(metrics))
        self._machine_bytes = 0
        self._logs = LogFile(stdout, open_stream(stdout)), LogFile(stderr, open_stream(stderr))
        self.streams: dict[StreamName, StreamFile] = {
            "stdout": self._logs[0],
            "stderr": self._logs[1],
            "metrics": self._metrics,
            "files": StreamFile(files, None),  # until the process has ended
        }

    @property
    def checkpoints(self) -> Path:
        """The folder for the run's checkpoints, the same for all its attempts."""
        return self.folder.parent / "checkpoints" / f"run-{self.assignment.run_id}"

    def file(self, stream: StreamName) -> Path:
        """Return the file of a stream."""
        return self.folder / ("metrics.jsonl" if stream == "metrics" else stream)

    def totals(self) -> dict[int, Totals]:
        """Return the totals of each rank, in order of the ranks; of at most 64 ranks."""
        found: dict[int, list[bytes]] = {}
        with suppress(OSError), os.scandir(self.folder) as entries:
            for file in islice(entries, _MAX_FILES):
                name = _TOTALS.fullmatch(file.name)
                content = name and read_regular(Path(file.path), FILE_BYTES)
                rank = int(name[1]) if name else 0
                if content and (rank in found or len(found) < _MAX_RANKS):
                    found.setdefault(rank, []).append(content)
        return {rank: Totals.unpack(*found[rank]) for rank in sorted(found)}

    @property
    def first_totals(self) -> Totals:
        """The totals of the first rank. The ranks of a worker wait for each other."""
        return next(iter(self.totals().values()), Totals())

    def sizes(self) -> dict[StreamName, int]:
        """Return the size of each stream in bytes; 0 if it ended early."""
        return {name: stream.size() for name, stream in self.streams.items()}

    def recorded_bytes(self) -> int:
        """Return the size of the metrics stream without the facts of the machine."""
        return self._metrics.size() - self._machine_bytes

    def describe_machine(self, facts: Mapping[str, object]) -> None:
        """Append the facts of the machine to the metrics stream, or raise an OSError."""
        data = _encoded([{"machine": facts}], time.time())
        # Counted first: a reader must not take them for values of a process.
        self._machine_bytes += len(data)
        self._metrics.append(data)

    def append(
        self, lines: Sequence[Mapping[str, object]], *, at: float | None = None, before: str = ""
    ) -> None:
        """Append lines of the agent to the metrics stream, or raise an OSError.

        ``at`` is the time of lines without a time, by default now. ``before`` is written first.
        """
        at = time.time() if at is None else at
        self._metrics.append(before.encode() + _encoded(lines, at))

    def say(self, words: str) -> None:
        """Write a message to the log, if the disk has room."""
        with suppress(OSError):
            self.streams["stderr"].append(f"{words}\n".encode())


def _encoded(lines: Sequence[Mapping[str, object]], at: float) -> bytes:
    texts = (json.dumps({"time": at, **line}, ensure_ascii=False) for line in lines)
    # Linux allows names that are not valid text; they must not keep the rest from being sent.
    return "".join(f"{text}\n" for text in texts).encode(errors="replace")
