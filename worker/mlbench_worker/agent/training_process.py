"""A training process, started in a new process group and ended with all its descendants."""

import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.clock import SteadyClock
from mlbench_worker.agent.fork_servers import Forked, ForkServer
from mlbench_worker.agent.process_lookup import children, environ_of

GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL."""
_REAP_SECONDS = 2.0
"""Maximum time to wait for killed descendants."""
NOT_STARTED = 127
"""The shell's exit code for a command that cannot be started."""

# A shell script that waits for the end of its standard input, which is the end of the agent. It
# then kills the process group, and processes that left the group, such as torchrun's ranks, which
# it finds by a variable of the attempt.
_GUARD = """
read -r _
kill -KILL "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    environs=$(grep -lszxF "$2" /proc/[0-9]*/environ)
    [ "$environs" ] || exit
    for environ in $environs; do
        process=${environ#/proc/}
        kill -KILL "${process%/environ}"
    done
    sleep 0.1
done 2>/dev/null
"""


@dataclass(frozen=True)
class Exit:
    """The end of a process."""

    code: int
    """Exit code, or the negative number of the signal that killed the process."""
    at: float
    """Unix time in seconds."""


class TrainingProcess:
    """A command that runs in a new process group until it ends or is stopped.

    ``on_exit`` is called from another thread once the whole group has ended. If the command cannot
    be started, it is called immediately.

    Raises:
        OSError, RuntimeError: the files cannot be opened, or the watchers cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        working_dir: str | None,
        stdout: Path,
        stderr: Path,
        cpus: Sequence[int],
        on_exit: Callable[[Exit], None],
        forkserver: ForkServer | None = None,
    ) -> None:
        self._stop_by: float | None = None
        self._on_exit = on_exit
        self._clock = SteadyClock()
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._other_children = set(children())
        own_cpus = os.sched_getaffinity(0)
        with stdout.open("ab") as out, stderr.open("ab") as err:
            if cpus:  # A process inherits the cores of the thread that starts it.
                os.sched_setaffinity(0, cpus)
            try:
                if forkserver:
                    self._process = forkserver.fork(command, environ, working_dir, (out, err))
                else:
                    self._process = subprocess.Popen(
                        command,
                        env=environ,
                        cwd=working_dir,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        start_new_session=True,
                    )
            except OSError as error:
                # Popen's error contains the name of either the folder or the program.
                program, hint = command[0], ""
                if working_dir is not None and error.filename == working_dir:
                    program += f" in {working_dir}"
                elif error.errno == errno.ENOEXEC:
                    hint = " (its first line must name its interpreter, such as #!/bin/sh)"
                err.write(f"cannot start {program}: {error.strerror}{hint}\n".encode())
            finally:
                os.sched_setaffinity(0, own_cpus)
        if self._process is None:
            on_exit(Exit(NOT_STARTED, self._clock.now()))
            return
        try:
            # In a container, all processes end with the first one, so the agent needs no guard.
            self._guard: subprocess.Popen[bytes] | None = None
            if os.getpid() != 1:
                mark = f"{names.ENV_METRICS_FILE}={environ.get(names.ENV_METRICS_FILE, '')}"
                guard = ["sh", "-c", _GUARD, "guard", str(self._process.pid), mark]
                self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
                self._other_children.add(self._guard.pid)
            threading.Thread(target=self._wait, args=(self._process,), daemon=True).start()
        except (OSError, RuntimeError):
            self._signal_group(signal.SIGKILL)
            self._process.wait()
            raise

    @property
    def pid(self) -> int | None:
        """Process id; None if the process could not be started."""
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """Ask the group to end; call ``enforce_stop`` repeatedly afterwards."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + GRACE_SECONDS
            self._signal_group(signal.SIGTERM)

    def enforce_stop(self) -> None:
        """Kill the group if it has not ended within the grace period."""
        if self._stop_by is not None and time.monotonic() > self._stop_by:
            self._signal_group(signal.SIGKILL)

    def _wait(self, process: subprocess.Popen[bytes] | Forked) -> None:
        # The process is not reaped yet, so that the number of its group is not reused.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ended_at = self._clock.now()
        self._signal_group(signal.SIGKILL)
        code = process.wait()
        try:
            # Also processes that left the group.
            _kill_all(lambda: set(children()) - self._other_children)
            if self._guard is not None:
                self._guard.kill()
                self._guard.communicate()
        finally:
            self._on_exit(Exit(code, ended_at))

    def _signal_group(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def end_left(folder: Path) -> None:
    """Kill the processes of attempts in a folder that an earlier agent and its guard left."""

    def processes() -> set[int]:
        pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
        metrics_files = ((pid, environ_of(pid).get(names.ENV_METRICS_FILE, "")) for pid in pids)
        return {pid for pid, file in metrics_files if file.startswith(f"{folder}/")}

    _kill_all(processes)


def _kill_all(processes: Callable[[], set[int]]) -> None:
    """Kill processes until none is left, and reap those that are children of this process."""
    deadline = time.monotonic() + _REAP_SECONDS
    while (pids := processes()) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends.

    No descendant escapes then, and their usage counts as usage of this process's children.
    """
    pr_set_child_subreaper = 36  # from linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1)


def hide_from_others() -> None:
    """Hide this process's memory and environment from other processes of its user.

    A training process could otherwise read the agent's token there.
    """
    pr_set_dumpable = 4  # from linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_dumpable, 0)
