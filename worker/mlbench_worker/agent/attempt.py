"""An attempt of one rank, on disk and as a process: the agent starts, stops and reports it."""

import logging
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench.contract.humanize import printable
from mlbench.contract.limits import MAX_ERROR_LENGTH
from mlbench.local.proc import Traffic, traffic_from_now
from mlbench_worker.agent import environment, torchrun
from mlbench_worker.agent.attempt_files import COUNTERS, DIAGNOSIS, AttemptFiles
from mlbench_worker.agent.machine import killed_for_memory, memory_limit
from mlbench_worker.agent.output_collector import clear, pack
from mlbench_worker.agent.rank_network import NETWORK_VARIABLES, RankNetwork
from mlbench_worker.agent.stream_files import (
    StreamFile,
    create_stream,
    open_regular,
    own_folder,
    read_json,
    remove,
    write_json,
)
from mlbench_worker.agent.training_process import NOT_STARTED, Exit, TrainingProcess

if TYPE_CHECKING:
    from mlbench.contract.records import Interference
    from mlbench_worker.agent.external_process import ExternalProcess
    from mlbench_worker.agent.fork_servers import ForkServer
    from mlbench_worker.agent.observation import Observation
    from mlbench_worker.agent.sources import Sockets

log = logging.getLogger(__name__)

_ASSIGNMENT = "assignment.json"
_ROOM = "room"
"""A file that reserves space, so that the agent's last lines fit on a disk that is then full."""


class Attempt(AttemptFiles):
    """A rank's folder and process.

    The folder contains the assignment, the streams, the counters and the process's exit, for a
    restarted agent. A running agent relies on its memory only: the command may do anything to the
    folder, and the disk may be full.
    """

    def __init__(
        self, folder: Path, assignment: Assignment, open_stream: Callable[[Path], int | None]
    ) -> None:
        super().__init__(folder, assignment, open_stream)
        self.ended = threading.Event()
        self.hurry = threading.Event()
        """Set when the streams should be shipped immediately."""
        self.exit: Exit | None = None
        self._secrets: list[str] = []
        self.process: TrainingProcess | ExternalProcess | None = None
        """The rank's process; None before its start, and for an attempt of an earlier agent."""
        self.network: RankNetwork | None = None
        """The rank's own network, while its process runs; None if it shares the machine's."""
        self._traffic: Callable[[], Traffic] | None = None
        self._observation: Observation | None = None
        self._profiled: list[list[float]] = []
        self.injected_stops = 0
        """Number of active injected faults that stop the rank's processes."""
        self._killed_before = 0
        self.began = time.monotonic()
        self._failure = ""
        self._stopped = False
        self._remembered = False

    @classmethod
    def create(cls, parent: Path, assignment: Assignment) -> "Attempt":
        """Make the folder of a new attempt, private to this user, or raise an OSError."""
        a = assignment
        # A unique name: an older folder may still exist.
        prefix = f"run-{a.run_id}-attempt-{a.attempt}-rank-{a.rank}-"
        for _ in range(10):
            # Another rank on this machine removes the parent, if it is empty, when it ends.
            with suppress(FileNotFoundError):
                own_folder(parent)
                folder = Path(tempfile.mkdtemp("", prefix, parent))
                break
        else:
            raise FileNotFoundError(f"{parent} does not stay")
        try:
            for name in (COUNTERS, DIAGNOSIS):
                (folder / name).mkdir(mode=0o700)
            with suppress(OSError):  # a file system without pipes
                os.mkfifo(folder / DIAGNOSIS / "stacks", 0o600)
            write_json(folder / _ASSIGNMENT, asdict(assignment))
            (folder / _ROOM).write_bytes(os.urandom(8 << 10))  # random: not compressible
            attempt = cls(folder, assignment, create_stream)
            own_folder(attempt.output)
            return attempt
        except OSError:
            remove(folder)
            raise

    @classmethod
    def resume(cls, parent: Path) -> "Attempt | None":
        """Return the attempt that an earlier agent left unfinished; its process has ended."""
        for folder in sorted(parent.glob("run-*")):
            try:
                return cls.open(folder)
            except FileNotFoundError:
                continue
            except ValueError as error:
                log.warning("cannot resume what was left in %s: %s", folder, error)
        return None

    @classmethod
    def open(cls, folder: Path, unknown: str = "") -> "Attempt":
        """Return the attempt in a folder, whose process has ended.

        ``unknown`` is the failure to assume if the folder does not contain an exit: the process was
        then probably killed together with the agent.

        Raises:
            FileNotFoundError, ValueError: the assignment is missing or malformed.
        """
        attempt = cls.open_running(folder)
        ended, failure = Exit(-signal.SIGKILL, time.time()), unknown
        file = folder / names.EXIT_FILE
        try:
            record = read_json(file)
            written = Exit(int(record["code"]), float(record["at"]))
            if abs(written.code) <= 255 and math.isfinite(written.at):  # the master's limits
                ended, failure = written, str(record.get("failure", ""))
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            log.warning("%s does not say how the process ended: %s", file, error)
        attempt._note_exit(ended, failure)
        return attempt

    @classmethod
    def open_running(cls, folder: Path) -> "Attempt":
        """Return the attempt in a folder, whose process is watched by another process.

        Raises:
            FileNotFoundError, ValueError: the assignment is missing or malformed.
        """
        return cls(folder, Assignment.from_fields(read_json(folder / _ASSIGNMENT)), open_regular)

    @property
    def pid(self) -> int | None:
        """Process id of the rank's first process; None before it starts."""
        return self.process.pid if self.process else None

    @property
    def measured(self) -> "Interference | None":
        """The interference measured so far; None before the first measurement."""
        return self._observation.measured if self._observation else None

    @property
    def out_of_memory_kills(self) -> int:
        """Number of the worker's processes killed by the kernel since the rank began."""
        return killed_for_memory() - self._killed_before

    @property
    def failure(self) -> str:
        """The reason for which the rank has failed, independent of its exit code; "" if none."""
        damage = self._metrics.damage
        reason = self._failure or (damage and f"its metrics file {damage}")
        for secret in self._secrets:
            reason = reason.replace(secret, "*" * len(secret))
        return printable(reason[:MAX_ERROR_LENGTH], " ")

    def prepare_checkpoints(self) -> None:
        """Remove the checkpoints of other runs, and make the run's folder for its own."""
        with suppress(OSError):  # The error of the code that saves there says more.
            own_folder(self.checkpoints.parent)
            for old in self.checkpoints.parent.glob("*"):
                if old != self.checkpoints or self.assignment.attempt == 1:
                    remove(old)
            if self.assignment.keeps_checkpoints:
                own_folder(self.checkpoints)

    def report(self) -> dict[str, object]:
        """Return the fields of a poll that describe the attempt."""
        a, ended = self.assignment, self.exit
        report = {"state": "running", "run_id": a.run_id, "attempt": a.attempt, "rank": a.rank}
        if self.failure:
            report["failure"] = self.failure
        if ended is not None:
            report |= {"state": "exited", "exit_code": ended.code, "exited_at": ended.at}
            report["sizes"] = self.sizes()
        return report

    def start(
        self,
        environ: Mapping[str, str],
        on_exit: Callable[[], None],
        clock_offset_seconds: float = 0.0,
        *,
        network: RankNetwork | None = None,
        is_pod: bool = False,
        forkserver: "ForkServer | None" = None,
    ) -> None:
        """Start the process.

        Args:
            environ: the environment of the agent.
            on_exit: called from another thread when the process has ended.
            clock_offset_seconds: the lead of this machine's clock over the master's.
            network: the rank's own network, closed after its end; None for the machine's.
            is_pod: whether this machine is a pod of a cluster: the network is the rank's alone, and
                users must not see the programs of other users.
            forkserver: forks the process; None to start a new interpreter.

        Raises:
            OSError, RuntimeError, ValueError: the process cannot be started or observed. A command
                that cannot be executed is instead reported as the exit of the process.
        """

        def note(ended: Exit) -> None:
            self.conclude(ended)
            on_exit()

        command = self.assignment.command
        self.network = network
        if network is not None:
            self._traffic = network.traffic
        elif is_pod:
            self._traffic = traffic_from_now()
        observation = self.listen(environ, network.sockets if network else None)
        with ExitStack() as undoing:
            undoing.callback(observation.close)
            mark = f"{names.ENV_RUN_ID}={self.assignment.run_id}"
            observation.measure(mark, name_others=not is_pod)
            self.process = TrainingProcess(
                network.inside(command) if network else command,
                environ={
                    **environment.of_rank(self, environ, clock_offset_seconds),
                    **observation.variables,
                    **(NETWORK_VARIABLES if network else {}),
                },
                working_dir=self.assignment.working_dir,
                stdout=self.file("stdout"),
                stderr=self.file("stderr"),
                cpus=self.assignment.cpus,
                on_exit=note,
                forkserver=forkserver,
            )
            undoing.pop_all()

    def listen(
        self, environ: Mapping[str, str], sockets: "Sockets | None" = None, root: int | None = None
    ) -> "Observation":
        """Start to observe the rank; ``Observation`` describes the parameters."""
        # Imported for the first run, because an idle agent does not need it.
        from mlbench_worker.agent.observation import Observation  # noqa: PLC0415

        self._killed_before = killed_for_memory()
        self.began = time.monotonic()
        self._observation = Observation(self, environ, sockets, root)
        self._secrets = self._observation.secrets
        for file in self._logs:
            file.hide(self._secrets)
        return self._observation

    @contextmanager
    def profiling(self) -> Iterator[None]:
        """Note that the rank is profiled inside the context; the spans are recorded at its end."""
        self._profiled.append(span := [time.time(), math.inf])
        try:
            yield
        finally:
            span[1] = time.time()

    def conclude(
        self, ended: Exit, failure: str = "", missing: str = "", unwritten: int = 0
    ) -> None:
        """Read the last output of the processes, which have ended; then note the exit.

        ``missing`` describes values that an external job could not record, which is not a failure
        of the job. ``unwritten`` is the number of values that its processes could not write.
        """
        reason = failure
        # A process that was stopped may report the stop as an error, which is ignored.
        if not reason and ended.code > 0 and not self._stopped:
            reason = torchrun.failure(self.error_file, self.file("stderr"))
            # A full disk keeps a process from writing its last output. This is checked before the
            # reserved space is released.
            with suppress(OSError):
                disk = os.statvfs(self.folder)
                if not reason and disk.f_bavail * disk.f_frsize <= 16 << 10:
                    reason = f"it exited with code {ended.code} while its worker's disk was full"
        with suppress(OSError):
            (self.folder / _ROOM).unlink()
        lines: list[Mapping[str, object]] = []
        interference, counts = None, Counter(unwritten_values=unwritten)
        if self._observation is not None:
            interference = self._observation.close(ended.code)
            counts.update(self._observation.not_recorded)
            reason = reason or self._observation.failure
        if self._traffic is not None:
            with suppress(OSError, ValueError, subprocess.SubprocessError):
                carried = self._traffic()
                values = {
                    names.NETWORK_SENT: carried.sent,
                    names.NETWORK_RECEIVED: carried.received,
                }
                lines.append({"metrics": values})
        if self.network is not None:
            self.network.close()
        if interference is not None:
            profiled = [(began, min(end, ended.at)) for began, end in self._profiled]
            lines.append({"interference": {**asdict(interference), "profiled": profiled}})
        if counts := +counts:  # without zeros
            lines.append({"not_recorded": counts})
        if lines:
            with suppress(OSError):
                # The last line of the process may be incomplete.
                self.append(lines, at=ended.at, before="\n")
        if self.out_of_memory_kills > 0:
            limit = memory_limit()
            size = f", {limit / 2**20:.0f} MiB" if limit is not None else ""
            self.say(f"out of memory: the kernel killed a process at the worker's limit{size}")
        if missing:
            reason = reason or (f"exit code {ended.code}" if ended.code else "")
            reason = "; ".join(filter(None, [reason, missing]))
        self._note_exit(ended, reason)

    def stop(self) -> None:
        """Ask the process to end; ``enforce_stop`` kills it after a grace period."""
        self._stopped = True
        if self.process is not None:
            self.process.stop()

    def enforce_stop(self) -> None:
        """Kill the process if its grace period is over."""
        if self.process is not None:
            self.process.enforce_stop()

    def fail(self, why: str) -> None:
        """End the attempt without a process."""
        self._note_exit(Exit(NOT_STARTED, time.time()), why)

    def forget(self) -> None:
        """Close the streams. The counters stay, because Prometheus may not have scraped them."""
        clear(self.output, self.file("files"))
        with suppress(OSError):  # files of other attempts may be there
            self.output.parent.rmdir()
        for stream in self.streams.values():
            stream.close()
        try:
            (self.folder / _ASSIGNMENT).unlink(missing_ok=True)
        except OSError as error:
            # The next agent will resume it, and the master will stop it.
            log.warning("%s stays: %s", self.folder, error)

    def remember_exit(self) -> None:
        """Write the exit for a restarted agent, unless that is done.

        It is called repeatedly, because a full disk may have room later.
        """
        if self.exit is None or self._remembered:
            return
        with suppress(OSError):
            content = {**asdict(self.exit), "failure": self.failure}
            write_json(self.folder / names.EXIT_FILE, content)
            self._remembered = True

    def _note_exit(self, ended: Exit, failure: str = "") -> None:
        """Pack the output, and note the exit: in memory first, in case the disk is full."""
        packed = self.file("files")
        if not packed.exists():  # else an earlier agent has packed it, and perhaps shipped a part
            try:
                words = pack(self.output, packed)
            except FileNotFoundError:
                words = ""
            except OSError as error:
                words = f"the files in $MLBENCH_OUTPUT stay where they are: {error}"
            if words:
                self.say(f"{words}: {self.output}")
        self.streams["files"] = StreamFile(packed, open_regular(packed))
        # Pipes and sockets would break a backup of the home folder.
        with suppress(OSError):
            for path in self.diagnosis.iterdir():
                if not (path.is_file() or path.is_symlink()):
                    path.unlink()
        self._metrics.size()  # checks once more that all recorded values are still there
        self._failure = failure
        self.exit = ended
        self.ended.set()
        self.hurry.set()
        self.remember_exit()
