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
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mlbench import names
from mlbench.process import Process, of_worker, this_process
from mlbench.stated import MOST_SETTINGS, Setting
from mlbench.tensorboard import DamagedError, Hyperparameters, Scalar, read_events
from mlbench_worker.agent.files import open_regular
from mlbench_worker.agent.sources.processes import (
    MOST_PROCESSES,
    descendants,
    entries,
    environ_of,
    has_open,
)

log = logging.getLogger(__name__)

Line = dict[str, object]

_NAME = "events.out.tfevents."
_RUN = "MLBENCH_RUN_ID"
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

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worker = Process()
        self._processes: dict[int, Process] = {}
        self._own_names: dict[int, Path] = {}
        self._followed: dict[Path, _EventFile] = {}
        self._bases: dict[int, Path] = {}
        self._settings: dict[str, Setting] = {}
        self._began = time.monotonic()
        self._began_at = int(time.time()) - 1
        self._look_at = 0.0

    def read(self) -> Iterator[Line]:
        """Yield the lines of the metrics file for what was written since the last time."""
        began = time.monotonic()
        if began > self._look_at:
            self._know_processes()
            yield from self._look()
            ended = time.monotonic()
            often = min(max((ended - self._began) / 5, _LEAST_SECONDS), _LONGEST_SECONDS)
            self._look_at = ended + max(often, _LOOKS * (ended - began))
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
        """Learn the ranks of the agent's descendants; of those that have ended, they stay known."""
        for pid in islice(descendants(), MOST_PROCESSES):
            if pid not in self._processes and len(self._processes) < MOST_PROCESSES:
                environ = environ_of(pid)
                if _RUN in environ:
                    self._processes[pid] = this_process(environ)
                    metrics_file = environ.get(names.ENV_METRICS_FILE, "")
                    self._own_names[pid] = Path(names.own_names_file(metrics_file, pid))
                    self._worker = of_worker(environ)

    def _look(self) -> Iterator[Line]:
        """Look for files of the processes that are not followed yet."""
        if not self._processes:
            return
        for path in sorted(_event_files(self._folder), key=lambda found: found.name):
            if path in self._followed:
                continue
            pid = self._writer(path)
            file = open_regular(path) if pid is not None else None
            if pid is None or file is None:
                continue
            process = self._processes[pid]
            folder = path.parent
            if _OF_ADD_HPARAMS.fullmatch(folder.name):
                folder = folder.parent
            prefix = _prefix(self._bases.setdefault(pid, folder), folder)
            of_other: Line = {} if process.rank == self._worker.rank else {"rank": process.rank}
            self._followed[path] = _EventFile(
                os.fdopen(file, "rb"),
                path,
                prefix,
                of_other,
                self._own_names[pid],
                self._settings if process.rank == 0 else None,
                stays_open=len(self._followed) < _MOST_OPEN_FILES,
            )
            if process != self._worker:
                yield {"time": time.time(), "process": asdict(process)}

    def _writer(self, path: Path) -> int | None:
        """Return the process that writes a file; None if it is none of this worker's."""
        began, found, rest = path.name.partition(f".{socket.gethostname()}.")
        number = rest.partition(".")[0]
        if found and number.isdecimal():
            began = began.removeprefix(_NAME)
            if began.isdecimal() and int(began) < self._began_at:
                return None  # of an earlier process with the same number
            return int(number) if int(number) in self._processes else None
        return next((pid for pid in self._processes if has_open(pid, path)), None)


class _EventFile:
    def __init__(
        self,
        file: BinaryIO,
        path: Path,
        prefix: str,
        of_other: Line,
        own_names: Path,
        settings: dict[str, Setting] | None,
        *,
        stays_open: bool,
    ) -> None:
        self._file: BinaryIO | None = file
        self._inode = os.fstat(file.fileno()).st_ino
        self._position = 0
        self._stays_open = stays_open
        self._path = path
        self._prefix = prefix
        self._of_other = of_other
        self._own_names = own_names
        self._settings = settings
        """Those that event files have stated so far; None for a rank that states none."""
        self.failure = ""

    def read(self) -> Iterator[Line]:
        file = None if self.failure else self._file or self._open_again()
        if file is None:
            return
        try:
            own: set[str] | None = None
            for one in read_events(file):
                own = _lines(self._own_names) if own is None else own
                match one:
                    case Scalar() if (name := self._prefix + one.tag) not in own:
                        fields: Line = {"step": one.step, "metrics": {name: one.value}}
                        yield {"time": one.time, **self._of_other, **fields}
                    case Hyperparameters() if "" not in own and self._settings is not None:
                        self._settings |= one.values
                        for surplus in list(self._settings)[MOST_SETTINGS:]:
                            del self._settings[surplus]
                        yield {"time": one.time, "settings": dict(self._settings)}
        except (DamagedError, OSError) as error:
            self.failure = f"the event file {self._path} is damaged {error}"
            log.warning("%s", self.failure)
        if not self._stays_open:
            self._position = file.tell()
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_again(self) -> BinaryIO | None:
        """Open the file once more; None if it has nothing new, or is another one now."""
        with suppress(OSError):
            found = self._path.lstat()
            if found.st_ino == self._inode and found.st_size > self._position:
                descriptor = open_regular(self._path)
                if descriptor is not None:
                    self._file = os.fdopen(descriptor, "rb")
                    self._file.seek(self._position)
        return self._file


def _prefix(base: Path, folder: Path) -> str:
    """Return the prefix of a folder's tags: its path below the process's first folder.

    Keras writes the same tags to ``train`` and ``validation``, PyTorch's ``add_scalars`` to a
    folder for each value.
    """
    if folder == base:
        return ""
    below = folder.relative_to(base) if folder.is_relative_to(base) else Path(folder.name)
    return f"{below}/"


def _event_files(folder: Path) -> Iterator[Path]:
    """Yield the event files below a folder, the nearest first, within bounds."""
    left, level = _MOST_ENTRIES, [folder]
    for _ in range(_DEEPEST):
        deeper: list[Path] = []
        for place in level:
            for entry in islice(entries(place), left):
                left -= 1
                if entry.name.startswith(_NAME):
                    yield place / entry.name
                elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    deeper.append(place / entry.name)
        level = deeper


def _lines(path: Path) -> set[str]:
    """Return a file's lines; none if it is not there."""
    file = open_regular(path)
    if file is None:
        return set()
    with os.fdopen(file, "rb") as opened:
        return set(opened.read(_MOST_NAMES_BYTES).decode(errors="replace").splitlines())
