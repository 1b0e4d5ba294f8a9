"""The agent's side of the fork server: processes of official tasks that begin at once.

It stays while runs go on, without using a core. Whatever it cannot do is done by a new process.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from mlbench.contract import names
from mlbench.contract.assignment import Assignment
from mlbench_worker.agent.machine import available_memory, memory_limit

_MODULE = "mlbench_worker.ranks.forkserver"
_OF_TASKS = "mlbench_worker.tasks."
# In a command, after its interpreter.
_RUNS_MODULE = ("-P", "-m")
# It takes 300 MB, and what it forks shares most of them.
_LEAST_AVAILABLE_BYTES = 2 << 30
_LEAST_LIMIT_BYTES = 4 << 30
# Before that, the stack may be starting, or the next run be on its way.
_IDLE_SECONDS = 2.0
_IMPORT_SECONDS = 10.0
_FORK_SECONDS = 5.0
# What forked processes show as their environment is written into the room of this variable.
_ROOM, _ROOM_BYTES = "MLBENCH_ROOM", 64 << 10


class Forked:
    """A process that the fork server has forked, to be waited for like a ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Wait for its end, and return its code: negative for a signal."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class ForkServer:
    """A fork server, from its start until ``close``."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start it; what it forks has the environment of its order.

        Raises:
            OSError: no process, or no descriptor, is left.
        """
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # NumPy's library would start threads, of which a fork has none.
        changed = {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", _ROOM: " " * _ROOM_BYTES}
        with contextlib.ExitStack() as on_error, theirs:
            on_error.callback(self._channel.close)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                env={**environ, **changed},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            on_error.pop_all()
        self._is_ready = self._has_ended = False

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Wait until it has imported everything, for so long at most, and return whether it has."""
        if not self._is_ready:
            self._channel.settimeout(seconds)
            with contextlib.suppress(OSError):
                self._is_ready = bool(self._channel.recv(16))
                self._has_ended = not self._is_ready
        return self._is_ready and self.is_alive()

    def is_alive(self) -> bool:
        """Check that its process has not ended."""
        return not self._has_ended and self._process.poll() is None

    def fork(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        working_dir: str | None,
        files: tuple[BinaryIO, BinaryIO],
    ) -> Forked:
        """Run the command of an official task on the cores of this thread, in a new session.

        Raises:
            OSError: it does not answer.
        """
        order = {
            "arguments": command[1 + len(_RUNS_MODULE) :],
            "environ": environ,
            "working_dir": working_dir or str(Path.cwd()),
            "cpus": sorted(os.sched_getaffinity(0)),
        }
        self._channel.settimeout(_FORK_SECONDS)
        descriptors = [file.fileno() for file in files]
        socket.send_fds(self._channel, [json.dumps(order).encode()], descriptors)
        pid = self._channel.recv(16)
        if not pid:
            raise OSError("the fork server has ended")
        return Forked(int(pid))

    def close(self) -> None:
        """End it; what it has forked goes on."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


class ForkServers:
    """Keeps a fork server from when the agent has been idle for a while, or a run has use of it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Keep none if the user's environment says so; what is forked has this one's variables."""
        self._environ = environ
        self._wanted = environ.get(names.ENV_FORK_SERVER, "1") != "0"
        self._server: ForkServer | None = None
        self._idle_since = time.monotonic()

    @property
    def are_ready(self) -> bool:
        """Whether there is one that can fork at once."""
        return self._server is not None and self._server.is_ready()

    def note(self, *, is_busy: bool) -> None:
        """Start a fork server if the agent has been idle for a while."""
        if is_busy:
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > _IDLE_SECONDS:
            self._start()

    def find(self, assignment: Assignment) -> ForkServer | None:
        """Return a fork server that can run a rank now; end one that is not ready and never can.

        It would take cores from the run.
        """
        can = assignment.attachment is None and can_fork(
            assignment.command, self._environ, assignment.working_dir or "."
        )
        if can:
            self._start()
        if self._server is None:
            return None
        if self._server.is_ready(_IMPORT_SECONDS if can else 0.0):
            return self._server if can else None
        if can and self._server.is_alive():
            return None  # The machine is busy: it will be ready for the next attempt.
        self._wanted = self._server.is_alive()  # Where PyTorch is missing, it never will be ready.
        self.close()
        return None

    def close(self) -> None:
        """End the fork server; what it has forked goes on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _start(self) -> None:
        if self._server is None and self._wanted and _has_memory():
            with contextlib.suppress(OSError):
                self._server = ForkServer(self._environ)


def can_fork(command: Sequence[str], environ: Mapping[str, str], working_dir: str) -> bool:
    """Check that a command is an official task of this interpreter's, in a folder that is there."""
    return (
        tuple(command[1:3]) == _RUNS_MODULE
        and "".join(command[3:4]).startswith(_OF_TASKS)
        and shutil.which(command[0], path=environ.get("PATH")) == sys.executable
        and os.access(working_dir, os.X_OK)
    )


def _has_memory() -> bool:
    limit = memory_limit()
    if limit is not None and limit < _LEAST_LIMIT_BYTES:
        return False
    return available_memory() >= _LEAST_AVAILABLE_BYTES
