"""TensorBoard's event files below a run's working folder, followed while its processes write them.

A file is of the process whose number its name has, ``events.out.tfevents.TIME.HOST.PID.N``, or else
of the one that has it open. What other runs wrote in the same folder is none of this one's.
"""

import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mlbench import names
from mlbench.process import Process, of_worker, this_process
from mlbench.stated import MOST_SETTINGS, Setting
from mlbench.tensorboard import DamagedError, Hyperparameters, Scalar, read_events
from mlbench_worker.agent.files import open_regular, read_regular
from mlbench_worker.agent.sources import processes

log = logging.getLogger(__name__)

Line = dict[str, object]

_NAME = "events.out.tfevents."
# A folder of its own for each call, named for the time, which is no part of a metric's name.
_OF_ADD_HPARAMS = re.compile(r"\d{9,11}\.\d+")
# What is looked at in a folder and below it, and followed.
_MOST_ENTRIES = 20_000
_DEEPEST = 6
_MOST_OPEN_FILES = 256
_MOST_NAMES_BYTES = 1 << 20
# Looking takes at most a five-hundredth of the time, and comes less and less often.
_LOOKS = 500
_LEAST_SECONDS = 1.0
_LONGEST_SECONDS = 5.0


class EventFiles:
    """The event files that the processes of this worker's run write below a folder."""

    def __init__(self, folder: Path, root: int | None = None) -> None:
        self._folder = folder
        self._root = root
        self._worker = Process()
        self._writers: dict[int, _Writer] = {}
        self._followed: dict[Path, _EventFile] = {}
        self._settings: dict[str, Setting] = {}
        self._began = time.monotonic()
        self._began_at = int(time.time()) - 1
        self._look_at = 0.0

    def read(self) -> Iterator[Line]:
        """Yield the lines of the metrics file for what was written since the last time."""
        began = time.monotonic()
        if began > self._look_at:
            before = len(self._followed)
            self._know_processes()
            yield from self._look()
            ended = time.monotonic()
            often = min(max((ended - self._began) / 5, _LEAST_SECONDS), _LONGEST_SECONDS)
            # Opening files takes time once, and more of them may come soon.
            rest = _LOOKS * (ended - began) if len(self._followed) == before else 0.0
            self._look_at = ended + max(often, rest)
        for file in self._followed.values():
            yield from file.read()

    def look_now(self) -> None:
        """Let the next reading look for files, however long ago the last look was."""
        self._look_at = 0.0

    @property
    def failure(self) -> str:
        """Why values in event files are lost; "" if none are."""
        failures = (file.failure for file in self._followed.values())
        return next((failure for failure in failures if failure), "")

    def close(self) -> None:
        """Close the files."""
        for file in self._followed.values():
            file.close()

    def _know_processes(self) -> None:
        """Learn the ranks of the rank's processes; of those that have ended, they stay known."""
        for pid in islice(processes.descendants(self._root), processes.MOST_PROCESSES):
            if pid not in self._writers and len(self._writers) < processes.MOST_PROCESSES:
                environ = processes.environ_of(pid)
                if names.ENV_RUN_ID in environ:
                    metrics_file = environ.get(names.ENV_METRICS_FILE, "")
                    own_names = Path(names.own_names_file(metrics_file, pid))
                    self._writers[pid] = _Writer(this_process(environ), own_names)
                    self._worker = of_worker(environ)

    def _look(self) -> Iterator[Line]:
        """Look for files of the processes that are not followed yet."""
        if not self._writers:
            return
        for path in sorted(_event_files(self._folder), key=lambda file: file.name):
            writer = None if path in self._followed else self._writer_of(path)
            descriptor = open_regular(path) if writer else None
            if writer is None or descriptor is None:
                continue
            process = writer.process
            self._followed[path] = _EventFile(
                path,
                os.fdopen(descriptor, "rb"),
                writer.prefix(path.parent),
                {} if process.rank == self._worker.rank else {"rank": process.rank},
                writer.own_names,
                self._settings if process.rank == 0 else None,
                stays_open=len(self._followed) < _MOST_OPEN_FILES,
            )
            if process != self._worker:
                yield {"time": time.time(), "process": asdict(process)}

    def _writer_of(self, path: Path) -> "_Writer | None":
        """Return the process that writes a file; None if it is none of this worker's."""
        began, found, rest = path.name.partition(f".{socket.gethostname()}.")
        number = rest.partition(".")[0]
        if found and number.isdecimal():
            began = began.removeprefix(_NAME)
            if began.isdecimal() and int(began) < self._began_at:
                return None  # of an earlier process with the same number
            return self._writers.get(int(number))
        writers = self._writers.items()
        return next((one for pid, one in writers if processes.has_open(pid, path)), None)


@dataclass
class _Writer:
    """A process that may write event files."""

    process: Process
    own_names: Path
    """The file that lists what it records by itself."""
    base: Path | None = None
    """The folder of the first file that was found of it."""

    def prefix(self, folder: Path) -> str:
        """Return the prefix of a folder's tags: its path below the process's first folder.

        Keras writes the same tags to ``train`` and ``validation``, PyTorch's ``add_scalars`` to a
        folder for each value.
        """
        if _OF_ADD_HPARAMS.fullmatch(folder.name):
            folder = folder.parent
        base = self.base = self.base or folder
        if folder == base:
            return ""
        return f"{folder.relative_to(base) if folder.is_relative_to(base) else folder.name}/"


@dataclass
class _EventFile:
    path: Path
    file: BinaryIO | None
    prefix: str
    of_other: Line
    own_names: Path
    settings: dict[str, Setting] | None
    """Those that event files have stated so far; None for a rank that states none."""
    stays_open: bool
    position: int = 0
    failure: str = ""

    def __post_init__(self) -> None:
        assert self.file is not None
        self.inode = os.fstat(self.file.fileno()).st_ino

    def read(self) -> Iterator[Line]:
        file = None if self.failure else self.file or self._open_again()
        if file is None:
            return
        try:
            own: set[str] | None = None
            for event in read_events(file):
                if own is None:
                    listed = read_regular(self.own_names, _MOST_NAMES_BYTES) or b""
                    own = set(listed.decode(errors="replace").splitlines())
                match event:
                    case Scalar() if (name := self.prefix + event.tag) not in own:
                        fields: Line = {"step": event.step, "metrics": {name: event.value}}
                        yield {"time": event.time, **self.of_other, **fields}
                    case Hyperparameters() if "" not in own and self.settings is not None:
                        self.settings |= event.values
                        for surplus in list(self.settings)[MOST_SETTINGS:]:
                            del self.settings[surplus]
                        yield {"time": event.time, "settings": dict(self.settings)}
        except (DamagedError, OSError) as error:
            self.failure = f"the event file {self.path} is damaged {error}"
            log.warning("%s", self.failure)
        if not self.stays_open:
            self.position = file.tell()
            self.close()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _open_again(self) -> BinaryIO | None:
        """Open the file once more; None if it has nothing new, or is another one now."""
        with suppress(OSError):
            found = self.path.lstat()
            if found.st_ino == self.inode and found.st_size > self.position:
                descriptor = open_regular(self.path)
                if descriptor is not None:
                    self.file = os.fdopen(descriptor, "rb")
                    self.file.seek(self.position)
        return self.file


def _event_files(folder: Path) -> Iterator[Path]:
    """Yield the event files below a folder, the nearest first, within bounds."""
    left, level = _MOST_ENTRIES, [folder]
    for _ in range(_DEEPEST):
        deeper: list[Path] = []
        for place in level:
            for entry in islice(processes.entries(place), left):
                left -= 1
                if entry.name.startswith(_NAME):
                    yield place / entry.name
                elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    deeper.append(place / entry.name)
        level = deeper
