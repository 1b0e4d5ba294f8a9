"""TensorBoard's event files below a run's working folder, followed while its processes write them.

A file belongs to the process whose number is in its name, ``events.out.tfevents.TIME.HOST.PID.N``.
Without a number, it belongs to the process that has it open. The run's processes are looked up at
each reading. At the end, new files of unknown processes belong to the worker, unless another agent
followed files in the same folder.
"""

import logging
import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mlbench.contract import names
from mlbench.contract.limits import MAX_SETTINGS
from mlbench.contract.process import ProcessRank, of_worker, this_process
from mlbench.contract.reported_settings import Setting
from mlbench_sources.presence import Presence
from mlbench_sources.tensorboard import DamagedError, Hyperparameters, Scalar, read_events
from mlbench_worker.agent import process_lookup
from mlbench_worker.agent.sources import Line
from mlbench_worker.agent.stream_files import open_regular, read_regular

log = logging.getLogger(__name__)

_NAME = "events.out.tfevents."
# The time, and the PID if any.
_OF_THIS_HOST = re.compile(
    rf"{re.escape(_NAME)}(\d{{1,12}})\.{re.escape(socket.gethostname())}(?:\.(\d{{1,10}}))?(?:\..*)?"
)
_MIN_REST_SECONDS, _MAX_REST_SECONDS = 1.0, 5.0
"""Limits of the time between two searches of the folder."""
_MAX_WRITERS = 20_000
"""Maximum number of known processes, including ended ones. Further processes are unknown."""


class EventFiles:
    """The event files that the processes of this worker's run write below a folder."""

    def __init__(self, folder: Path, variables: Mapping[str, str], root: int | None = None) -> None:
        """Follow files of processes with ``variables`` in their environment, and of ``root``."""
        self._folder = folder.resolve()
        self._root, self._variables = root, variables
        self._worker = of_worker(variables)
        self._metrics_file = variables[names.ENV_METRICS_FILE]
        # The machine's processes at the last two readings.
        self._pids: tuple[Set[int], Set[int]] = frozenset(), frozenset()
        self._alive: set[int] = set()
        self._writers: dict[int, _Writer] = {}
        self._followed: dict[Path, _EventFile] = {}
        # Files of unknown processes, and whether one outside of the run had them open.
        self._unclaimed: dict[Path, bool] = {}
        self._settings: dict[str, Setting] = {}
        self._began_at = time.time()
        self._search_at = 0.0
        self._is_ending = False
        self._presence = Presence(self._folder)
        self.not_read = 0
        """Number of new files of unknown processes that are not recorded; 0 before the end."""

    def read(self) -> Iterator[Line]:
        """Yield the lines of the metrics file for new events."""
        opened = self._know_processes()
        for path, writer in opened.items():
            # The search below opens the files of known processes in order.
            if not _pid_in(path):
                yield from self._follow(path, writer)
        began = time.monotonic()
        if began > self._search_at:
            before = len(self._followed)
            yield from self._search(opened)
            ended = time.monotonic()
            # A search takes at most 0.2 % of the time, unless it takes over 10 ms. After new files,
            # more may appear soon, and their opening took a part of the time.
            rest = 500 * (ended - began) if len(self._followed) == before else 0.0
            self._search_at = ended + min(max(rest, _MIN_REST_SECONDS), _MAX_REST_SECONDS)
        for file in self._followed.values():
            yield from file.read()

    def end(self) -> None:
        """Search the folder in the next call of ``read``, because the processes have ended."""
        self._search_at = 0.0
        self._is_ending = True

    @property
    def failure(self) -> str:
        """The reason for which values in event files are lost; "" if none are lost."""
        failures = (file.failure for file in self._followed.values())
        return next((failure for failure in failures if failure), "")

    @property
    def damaged(self) -> int:
        """Number of event files that could not be read to their end."""
        return sum(bool(file.failure) for file in self._followed.values())

    def close(self) -> None:
        for file in self._followed.values():
            file.close()
        self._presence.close()

    def _know_processes(self) -> "dict[Path, _Writer]":
        """Determine the ranks of new processes; return the event files that processes write."""
        pids = frozenset(_all_pids())
        self._alive &= pids
        # Each process is checked twice: before exec, it still has its parent's environment.
        for pid in pids - (self._pids[0] & self._pids[1]):
            environ = process_lookup.environ_of(pid)
            if pid == self._root:
                # If this process called mlbench.record(), it got the variables after its start.
                environ |= self._variables
            if environ.get(names.ENV_METRICS_FILE) == self._metrics_file:
                self._alive.add(pid)
                if pid in self._writers:
                    self._writers[pid].process = this_process(environ)
                elif len(self._writers) < _MAX_WRITERS:
                    self._writers[pid] = self._new_writer(this_process(environ), pid)
        self._pids = self._pids[1], pids
        opened: dict[Path, _Writer] = {}
        for pid in islice(self._alive & self._writers.keys(), process_lookup.MAX_PROCESSES):
            for file in _files_written_by(pid, _NAME):
                if file.is_relative_to(self._folder):
                    opened[file] = self._writers[pid]
        return opened

    def _new_writer(self, process: ProcessRank, pid: int) -> "_Writer":
        return _Writer(process, Path(names.own_names_file(self._metrics_file, pid)))

    def _search(self, opened: "Mapping[Path, _Writer]") -> Iterator[Line]:
        """Follow new files in the folder; at the end, also files of unknown processes."""
        self._presence.look()
        # Open files may be outside of the limits of the search.
        paths = dict.fromkeys([*_event_files(self._folder), *opened])
        in_order = sorted(paths, key=lambda path: path.name)
        for path in in_order:
            pid = _pid_in(path)
            writer = self._writers.get(pid) if pid else opened.get(path)
            # An earlier process may have had the same PID.
            if writer and (not pid or self._is_new(path)):
                yield from self._follow(path, writer)
        known = self._followed.keys() | self._unclaimed.keys()
        new = [path for path in in_order if path not in known and self._is_new(path)]
        # Files that another user, or a process outside of the run, wrote are not claimed.
        foreign_files: set[Path] = set()
        if not all(map(_pid_in, new)):
            foreign = filter(self._is_foreign, _all_pids())
            foreign_files.update(*(_files_written_by(pid, _NAME) for pid in foreign))
        for path in new:
            pid = _pid_in(path)
            is_foreign = self._is_foreign(pid) if pid else path in foreign_files
            is_own = False  # written by this user since the run began
            with suppress(OSError):
                status = path.lstat()
                is_own = status.st_uid == os.geteuid() and status.st_mtime >= self._began_at
            self._unclaimed[path] = is_foreign or not is_own
        if self._is_ending:
            unclaimed = (path for path, is_foreign in self._unclaimed.items() if not is_foreign)
            remaining = [path for path in unclaimed if path not in self._followed]
            if not self._presence.is_alone:
                self.not_read = len(remaining)
                return
            # One writer per process: its files have different prefixes by their folders.
            writers = {pid: self._new_writer(self._worker, pid) for pid in map(_pid_in, remaining)}
            for path in remaining:
                yield from self._follow(path, writers[_pid_in(path)])

    def _follow(self, path: Path, writer: "_Writer") -> Iterator[Line]:
        """Follow a file of a process, unless it is followed already."""
        descriptor = None if path in self._followed else open_regular(path)
        if descriptor is None:
            return
        process = writer.process
        self._followed[path] = _EventFile(
            path,
            os.fdopen(descriptor, "rb"),
            writer.prefix(path.parent),
            {} if process.rank == self._worker.rank else {"rank": process.rank},
            writer.own_names,
            self._settings if process.rank == 0 else None,
            stays_open=len(self._followed) < 256,
        )
        if process != self._worker:
            yield {"time": time.time(), "process": asdict(process)}

    def _is_new(self, path: Path) -> bool:
        """Check that a file was created on this host since the run began, to within a second."""
        match = _OF_THIS_HOST.fullmatch(path.name)
        return match is not None and int(match[1]) >= int(self._began_at) - 1

    def _is_foreign(self, pid: int) -> bool:
        """Check that a process is running, and does not belong to the run."""
        if pid in self._alive or process_lookup.state_of(pid) in "XZ":
            return False
        return process_lookup.environ_of(pid).get(names.ENV_METRICS_FILE) != self._metrics_file


@dataclass
class _Writer:
    """A process that may write event files."""

    process: ProcessRank
    own_names: Path
    """The file with the names of the metrics that the process records directly."""
    base: Path | None = None
    """The folder of the first known file of the process."""

    def prefix(self, folder: Path) -> str:
        """Return the prefix of a folder's tags: its path below the process's first folder.

        Keras writes the same tags to ``train`` and ``validation``, PyTorch's ``add_scalars`` to a
        folder for each value.
        """
        # add_hparams creates a folder for each call, named after the time.
        if re.fullmatch(r"\d{9,11}\.\d+", folder.name):
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
    """The settings in event files so far; None for a rank that does not report settings."""
    stays_open: bool
    position: int = 0
    failure: str = ""

    def __post_init__(self) -> None:
        assert self.file is not None
        self.inode = os.fstat(self.file.fileno()).st_ino

    def read(self) -> Iterator[Line]:
        if self.failure:
            return
        # A file that was closed is opened again if it has grown, and was not replaced.
        if self.file is None:
            with suppress(OSError):
                status = self.path.lstat()
                is_grown = status.st_ino == self.inode and status.st_size > self.position
                descriptor = open_regular(self.path) if is_grown else None
                if descriptor is not None:
                    self.file = os.fdopen(descriptor, "rb")
                    self.file.seek(self.position)
        if self.file is None:
            return
        file = self.file
        try:
            own: set[str] | None = None
            is_copy = False
            for event in read_events(file):
                if own is None:
                    listed = read_regular(self.own_names, 1 << 20) or b""
                    own = set(listed.decode(errors="replace").splitlines())
                    is_copy = f"\0{self.path.parent}" in own
                match event:
                    case Scalar():
                        name = self.prefix + event.tag
                        if name not in own and not (is_copy and event.tag in own):
                            fields: Line = {"step": event.step, "metrics": {name: event.value}}
                            yield {"time": event.time, **self.of_other, **fields}
                    case Hyperparameters() if "" not in own and self.settings is not None:
                        self.settings |= event.values
                        for surplus in list(self.settings)[MAX_SETTINGS:]:
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


def _pid_in(path: Path) -> int:
    """Return the process id in the name of a file; 0 without one."""
    match = _OF_THIS_HOST.fullmatch(path.name)
    return int(match[2] or 0) if match else 0


def _event_files(folder: Path) -> Iterator[Path]:
    """Yield the event files below a folder, the nearest first: 6 levels, at most 20,000 entries."""
    remaining, level = 20_000, [folder]
    for _ in range(6):
        deeper: list[Path] = []
        for place in level:
            for entry in islice(process_lookup.entries(place), remaining):
                remaining -= 1
                if entry.name.startswith(_NAME):
                    yield place / entry.name
                elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    deeper.append(place / entry.name)
        level = deeper


def _all_pids() -> list[int]:
    """Return the numbers of the machine's processes."""
    with os.scandir("/proc") as listing:
        return [int(entry.name) for entry in listing if entry.name.isdecimal()]


def _files_written_by(pid: int, prefix: str) -> Iterator[Path]:
    """Yield files that a process has open for writing, whose names begin with ``prefix``."""
    descriptors = process_lookup.entries(Path(f"/proc/{pid}/fd"))
    for entry in islice(descriptors, process_lookup.MAX_OPEN_FILES):
        with suppress(OSError):
            path = Path(entry.path).readlink()
            # The link has the permissions of the descriptor.
            mode = entry.stat(follow_symlinks=False).st_mode if path.name.startswith(prefix) else 0
            if mode & stat.S_IWUSR:
                yield path
