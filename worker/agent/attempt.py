"""One rank of one attempt, on disk and as a process: what the agent starts, stops and reports."""

import json
import logging
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from mlbench import names
from mlbench.assignment import Assignment
from mlbench.names import StreamName
from worker.agent.files import (
    LogFile,
    MetricsFile,
    StreamFile,
    own_folder,
    read_json,
    remove,
    write_json,
)
from worker.agent.machine import killed_for_memory, memory_limit
from worker.agent.process import NOT_STARTED, Exit, TrainingProcess

log = logging.getLogger(__name__)

_FILES: Mapping[StreamName, str] = {
    "stdout": "stdout",
    "stderr": "stderr",
    "metrics": "metrics.jsonl",
}
_ASSIGNMENT, _EXIT, _COUNTERS = "assignment.json", "exit.json", "counters"
# As the master takes them.
_HIGHEST_CODE = 255
_LONGEST_FAILURE = 500
_ROOM_FOR_WORDS_BYTES = 16 << 10
# What a process is given as exit code if its agent ended with it: the guard killed it.
_KILLED = -9


class Attempt:
    """A rank's folder and process.

    The folder holds the assignment, the three streams, the counters and how the process ended, so
    that an agent that is started anew finds out what its predecessor left. What counts meanwhile
    is in memory: the command may do to the folder what it likes, and the disk may be full.
    """

    def __init__(
        self,
        folder: Path,
        assignment: Assignment,
        *,
        stdout: LogFile,
        stderr: LogFile,
        metrics: MetricsFile,
    ) -> None:
        self.folder = folder
        self.assignment = assignment
        self.ended = threading.Event()
        self.exit: Exit | None = None
        self._metrics = metrics
        self._streams: Mapping[StreamName, StreamFile] = {
            "stdout": stdout,
            "stderr": stderr,
            "metrics": metrics,
        }
        self._process: TrainingProcess | None = None
        self._failure = ""
        self._remembered = False

    @classmethod
    def create(cls, parent: Path, assignment: Assignment) -> "Attempt":
        """Make the folder of a new attempt, which others may not enter.

        Raises:
            OSError: it cannot be made.
        """
        a = assignment
        own_folder(parent)
        prefix = f"run-{a.run_id}-attempt-{a.attempt}-rank-{a.rank}-"
        # Of a name that is new, whatever was left here.
        folder = Path(tempfile.mkdtemp("", prefix, parent))
        try:
            (folder / _COUNTERS).mkdir(mode=0o700)
            write_json(folder / _ASSIGNMENT, asdict(assignment))
            return cls(
                folder,
                assignment,
                stdout=LogFile.create(folder / _FILES["stdout"]),
                stderr=LogFile.create(folder / _FILES["stderr"]),
                metrics=MetricsFile.create(folder / _FILES["metrics"]),
            )
        except OSError:
            remove(folder)
            raise

    @classmethod
    def unable(cls, parent: Path, assignment: Assignment, why: str) -> "Attempt":
        """Return an attempt that has failed, as no folder can be made for it."""
        folder = parent / "none"
        attempt = cls(
            folder,
            assignment,
            stdout=LogFile.missing(folder / _FILES["stdout"]),
            stderr=LogFile.missing(folder / _FILES["stderr"]),
            metrics=MetricsFile.missing(folder / _FILES["metrics"]),
        )
        attempt.fail(why)
        return attempt

    @classmethod
    def resume(cls, parent: Path) -> "Attempt | None":
        """Return what a former agent left unfinished: an attempt whose process has ended."""
        found = map(cls._left_in, sorted(parent.glob("run-*")))
        return next(filter(None, found), None)

    @classmethod
    def _left_in(cls, folder: Path) -> "Attempt | None":
        try:
            assignment = Assignment.from_fields(read_json(folder / _ASSIGNMENT))
        except FileNotFoundError:
            return None
        except ValueError as error:
            log.warning("nothing can be made of what was left in %s: %s", folder, error)
            return None
        attempt = cls(
            folder,
            assignment,
            stdout=LogFile.find(folder / _FILES["stdout"]),
            stderr=LogFile.find(folder / _FILES["stderr"]),
            metrics=MetricsFile.find(folder / _FILES["metrics"]),
        )
        attempt._note_exit(*_read_exit(folder / _EXIT))
        return attempt

    @property
    def counters(self) -> Path:
        """The folder in which prometheus-client keeps the process's totals."""
        return self.folder / _COUNTERS

    @property
    def checkpoints(self) -> Path:
        """The folder for the run's checkpoints, if it keeps any, the same for all its attempts."""
        return self.folder.parent / "checkpoints" / f"run-{self.assignment.run_id}"

    @property
    def failure(self) -> str:
        """Why the rank has failed, however its process ends; empty if it has not."""
        words = (self._failure or self._metrics.failure)[:_LONGEST_FAILURE]
        return "".join(character if character.isprintable() else " " for character in words)

    def remove_old_checkpoints(self) -> None:
        """Leave the checkpoints of the run's former attempts alone: a first attempt has none."""
        with suppress(OSError):
            own_folder(self.checkpoints.parent)
        for old in self.checkpoints.parent.glob("*"):
            if old != self.checkpoints or self.assignment.attempt == 1:
                remove(old)

    def file(self, stream: StreamName) -> Path:
        """Return the file that a stream is written to."""
        return self.folder / _FILES[stream]

    def read(self, stream: StreamName, offset: int, length: int) -> bytes:
        """Return the next bytes of a stream from an offset on, at most so many."""
        return self._streams[stream].read(offset, length)

    def size(self, stream: StreamName) -> int:
        """Return how many bytes a stream has, or has had so far, if it is given up."""
        return self._streams[stream].size()

    def sizes(self) -> dict[StreamName, int]:
        """Return the size of each stream."""
        return {stream: self.size(stream) for stream in self._streams}

    def state(self, machine: Mapping[str, object]) -> None:
        """Say what the rank runs on, in the first line of its metrics stream.

        Raises:
            OSError: it cannot be written.
        """
        line = json.dumps({"time": time.time(), "machine": machine}, ensure_ascii=False)
        # A name that is no text, as Linux allows them, must not cost the other facts.
        self._metrics.append(f"{line}\n".encode(errors="replace"))

    def start(
        self,
        environ: Mapping[str, str],
        on_exit: Callable[[], None],
        clock_offset_seconds: float = 0.0,
    ) -> None:
        """Start the process; ``on_exit`` is called, from another thread, when it has ended.

        ``clock_offset_seconds`` is by how much this machine's clock is ahead of the master's.

        Raises:
            OSError, RuntimeError, ValueError: it cannot be started, and not for its command's sake.
        """
        killed_before = killed_for_memory()

        def note(ended: Exit) -> None:
            if killed_for_memory() > killed_before:
                self._say_out_of_memory()
            self._note_exit(ended, _why_silent(ended, self.folder))
            on_exit()

        self._process = TrainingProcess(
            self.assignment.command,
            environ={**environ, **self._variables(clock_offset_seconds)},
            working_dir=self.assignment.working_dir,
            stdout=self.file("stdout"),
            stderr=self.file("stderr"),
            cpus=self.assignment.cpus,
            on_exit=note,
        )

    def stop(self) -> None:
        """Have the process end soon: by itself, or killed after a grace."""
        if self._process is not None:
            self._process.stop()

    def enforce_stop(self) -> None:
        """Kill the process if its grace is over."""
        if self._process is not None:
            self._process.enforce_stop()

    def fail(self, why: str) -> None:
        """Note that there will be no process, and why."""
        self._note_exit(Exit(NOT_STARTED, time.time()), why)

    def forget(self) -> None:
        """Leave only the counters, which Prometheus may not have scraped yet."""
        for file in self._streams.values():
            file.close()
        try:
            (self.folder / _ASSIGNMENT).unlink(missing_ok=True)
        except OSError as error:
            # The next agent will find it, and be told that it is over.
            log.warning("%s stays: %s", self.folder, error)

    def remember_exit(self) -> None:
        """Write down how it ended, for an agent that is started anew, unless that is done.

        A disk that is full now may have room later.
        """
        if self.exit is None or self._remembered:
            return
        with suppress(OSError):
            write_json(self.folder / _EXIT, {**asdict(self.exit), "failure": self.failure})
            self._remembered = True

    def _say_out_of_memory(self) -> None:
        limit = memory_limit()
        most = f", {limit / 2**20:.0f} MiB" if limit is not None else ""
        words = f"out of memory: the kernel killed a process at the worker's limit{most}\n"
        with suppress(OSError):
            self._streams["stderr"].append(words.encode())

    def _note_exit(self, ended: Exit, failure: str = "") -> None:
        """Note the end: first in memory, where nothing keeps it from being reported."""
        self._metrics.check()
        self._failure = failure
        self.exit = ended
        self.ended.set()
        self.remember_exit()

    def _variables(self, clock_offset_seconds: float) -> dict[str, str]:
        a = self.assignment
        variables = {
            "RANK": str(a.rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": str(a.world_size),
            "MASTER_ADDR": a.master_addr,
            "MASTER_PORT": str(a.master_port),
            # Lines must reach their file when they are written, also those before a crash.
            "PYTHONUNBUFFERED": "1",
            names.ENV_RUN_ID: str(a.run_id),
            names.ENV_ATTEMPT: str(a.attempt),
            names.ENV_RANK: str(a.rank),
            names.ENV_WORLD_SIZE: str(a.world_size),
            names.ENV_METRICS_FILE: str(self.file("metrics")),
            names.ENV_MULTIPROC_DIR: str(self.counters),
        }
        if a.cpus:
            variables["OMP_NUM_THREADS"] = str(len(a.cpus))
        if a.keeps_checkpoints:
            variables[names.ENV_CHECKPOINTS] = str(self.checkpoints)
        if a.seed is not None:
            variables[names.ENV_SEED] = str(a.seed)
        if a.deadline_at is not None:
            variables[names.ENV_DEADLINE] = repr(a.deadline_at + clock_offset_seconds)
        return variables


def _why_silent(ended: Exit, folder: Path) -> str:
    """Return why a process that failed may have no last words; empty if it had room for them."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    if ended.code <= 0 or disk.f_bavail * disk.f_frsize > _ROOM_FOR_WORDS_BYTES:
        return ""
    return f"it exited with code {ended.code} while its worker's disk was full"


def _read_exit(path: Path) -> tuple[Exit, str]:
    """Return how a process ended, and its failure, as a former agent wrote it down.

    Where it did not, or what it wrote was spoilt, the process was killed with it.
    """
    try:
        said = read_json(path)
        ended = Exit(int(said["code"]), float(said["at"]))
        if abs(ended.code) <= _HIGHEST_CODE and math.isfinite(ended.at):
            return ended, str(said.get("failure", ""))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        log.warning("%s does not say how the process ended: %s", path, error)
    return Exit(_KILLED, time.time()), ""
