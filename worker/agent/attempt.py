"""One rank of one attempt, on disk and as a process: what the agent starts, stops and reports."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlbench import names
from mlbench.names import STREAMS, StreamName
from worker.agent.cgroup import killed_for_memory, memory_limit
from worker.agent.process import Exit, TrainingProcess

_FILES: Mapping[StreamName, str] = {
    "stdout": "stdout",
    "stderr": "stderr",
    "metrics": "metrics.jsonl",
}
# What a process is given as exit code if its agent ended with it: the guard killed it.
_KILLED = -9


@dataclass(frozen=True)
class Assignment:
    """What the master wants to be run here."""

    run_id: int
    attempt: int
    rank: int
    world_size: int
    master_addr: str
    master_port: int
    command: tuple[str, ...]
    cpus: tuple[int, ...]
    keeps_checkpoints: bool
    working_dir: str | None = None
    """The folder that the command starts in; None for the agent's own."""
    seed: int | None = None
    deadline_at: float | None = None
    """When training shall end, in Unix seconds by the master's clock."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Assignment":
        """Return the assignment that a JSON object describes."""
        command, cpus = tuple(fields["command"]), tuple(fields["cpus"])
        return cls(**{**fields, "command": command, "cpus": cpus})


class Attempt:
    """A rank's folder and process.

    The folder holds the assignment, the three streams, the counters and how the process ended, so
    that an agent that is started anew finds out what its predecessor left.
    """

    def __init__(self, folder: Path, assignment: Assignment) -> None:
        self.folder = folder
        self.assignment = assignment
        self.ended = threading.Event()
        self.exit: Exit | None = None
        self._process: TrainingProcess | None = None

    @classmethod
    def create(cls, parent: Path, assignment: Assignment) -> "Attempt":
        """Make the folder of a new attempt."""
        a = assignment
        folder = parent / f"run-{a.run_id}-attempt-{a.attempt}-rank-{a.rank}"
        attempt = cls(folder, assignment)
        attempt.counters.mkdir(parents=True)
        for stream in STREAMS:
            attempt.file(stream).touch()
        # Last: a folder with an assignment is a whole one.
        _write_json(folder / "assignment.json", asdict(assignment))
        return attempt

    @classmethod
    def resume(cls, parent: Path) -> "Attempt | None":
        """Return what a former agent left unfinished: an attempt whose process has ended."""
        for path in sorted(parent.glob("run-*/assignment.json")):
            attempt = cls(path.parent, Assignment.from_fields(json.loads(path.read_text())))
            try:
                ended = Exit(**json.loads(attempt._exit_file.read_text()))
            except FileNotFoundError:
                ended = Exit(_KILLED, time.time())
            attempt._note_exit(ended)
            return attempt
        return None

    @property
    def counters(self) -> Path:
        """The folder in which prometheus-client keeps the process's totals."""
        return self.folder / "counters"

    @property
    def checkpoints(self) -> Path:
        """The folder for the run's checkpoints, if it keeps any, the same for all its attempts."""
        return self.folder.parent / "checkpoints" / f"run-{self.assignment.run_id}"

    def remove_old_checkpoints(self) -> None:
        """Leave the checkpoints of the run's former attempts alone: a first attempt has none."""
        for old in self.checkpoints.parent.glob("run-*"):
            if old != self.checkpoints or self.assignment.attempt == 1:
                shutil.rmtree(old)

    def file(self, stream: StreamName) -> Path:
        """Return the file that a stream is written to."""
        return self.folder / _FILES[stream]

    def sizes(self) -> dict[StreamName, int]:
        """Return how many bytes each stream has."""
        return {stream: self.file(stream).stat().st_size for stream in STREAMS}

    def state(self, machine: Mapping[str, object]) -> None:
        """Say what the rank runs on, in the first line of its metrics stream."""
        line = json.dumps({"time": time.time(), "machine": machine}, ensure_ascii=False)
        # A name that is no text, as Linux allows them, must not cost the other facts.
        self.file("metrics").write_bytes(f"{line}\n".encode(errors="replace"))

    def start(
        self,
        environ: Mapping[str, str],
        on_exit: Callable[[], None],
        clock_offset_seconds: float = 0.0,
    ) -> None:
        """Start the process; ``on_exit`` is called, from another thread, when it has ended.

        ``clock_offset_seconds`` is by how much this machine's clock is ahead of the master's.
        """
        killed_before = killed_for_memory()

        def note(ended: Exit) -> None:
            if killed_for_memory() > killed_before:
                self._say_out_of_memory()
            self._note_exit(ended)
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

    def forget(self) -> None:
        """Leave only the counters, which Prometheus may not have scraped yet."""
        (self.folder / "assignment.json").unlink()

    def _say_out_of_memory(self) -> None:
        limit = memory_limit()
        most = f", {limit / 2**20:.0f} MiB" if limit is not None else ""
        with self.file("stderr").open("a") as file:
            file.write(f"out of memory: the kernel killed a process at the worker's limit{most}\n")

    def _note_exit(self, ended: Exit) -> None:
        _write_json(self._exit_file, asdict(ended))
        self.exit = ended
        self.ended.set()

    @property
    def _exit_file(self) -> Path:
        return self.folder / "exit.json"

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


def _write_json(path: Path, content: object) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(content))
    draft.replace(path)
