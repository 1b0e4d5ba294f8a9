"""The agent's side of the fork server, which starts processes of official tasks quickly.

The server waits during runs without using a core. If it cannot start a process, the agent starts a
new interpreter.
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

_RUNS_MODULE = ("-P", "-m")
"""The arguments after the interpreter in the command of an official task."""


class Forked:
    """A forked process, with the part of the interface of ``subprocess.Popen`` that is used."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Wait for the end, and return the exit code, or the negative number of a signal."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class ForkServer:
    """A fork server, from its start until ``close``."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start the server. Each forked process has the environment of its request instead.

        Raises:
            OSError: out of processes or descriptors.
        """
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        changed = {
            "OPENBLAS_NUM_THREADS": "1",  # a fork would lose the threads of NumPy's library
            "PYTHONUNBUFFERED": "1",
            # Space in which forked processes write their environment, for /proc to show.
            "MLBENCH_ROOM": " " * (64 << 10),
        }
        module = "mlbench_worker.ranks.forkserver"
        with contextlib.ExitStack() as on_error, theirs:
            on_error.callback(self._channel.close)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
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
        """Return whether the server has imported everything; wait at most ``seconds`` for it."""
        if not self._is_ready:
            self._channel.settimeout(seconds)
            with contextlib.suppress(OSError):
                self._is_ready = bool(self._channel.recv(16))
                self._has_ended = not self._is_ready
        return self._is_ready and self.is_alive()

    def is_alive(self) -> bool:
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
            OSError: the server does not respond.
        """
        order = {
            "arguments": command[1 + len(_RUNS_MODULE) :],
            "environ": environ,
            "working_dir": working_dir or str(Path.cwd()),
            "cpus": sorted(os.sched_getaffinity(0)),
        }
        self._channel.settimeout(5.0)
        descriptors = [file.fileno() for file in files]
        socket.send_fds(self._channel, [json.dumps(order).encode()], descriptors)
        pid = self._channel.recv(16)
        if not pid:
            raise OSError("the fork server has ended")
        return Forked(int(pid))

    def close(self) -> None:
        """End the server; forked processes keep running."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


class ForkServers:
    """Starts a fork server once the agent has been idle for a while, or a run can use it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ`` is the user's environment, which can disable the server."""
        self._environ = environ
        self._is_enabled = environ.get(names.ENV_FORK_SERVER, "1") != "0"
        self._server: ForkServer | None = None
        self._idle_since = time.monotonic()

    @property
    def are_ready(self) -> bool:
        """Whether a server can fork immediately."""
        return self._server is not None and self._server.is_ready()

    def note(self, *, is_busy: bool) -> None:
        """Start a fork server if the agent has been idle for 2 s.

        Earlier, the stack may still be starting, or the next run may be about to start.
        """
        if is_busy:
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > 2.0:
            self._start()

    def find(self, assignment: Assignment) -> ForkServer | None:
        """Return a fork server that can run a rank now; None if there is none.

        A server that is not ready, and not useful for this rank, is ended: it would take cores from
        the run.
        """
        can = assignment.attachment is None and can_fork(
            assignment.command, self._environ, assignment.working_dir or "."
        )
        if can:
            self._start()
        if self._server is None:
            return None
        if self._server.is_ready(10.0 if can else 0.0):
            return self._server if can else None
        if can and self._server.is_alive():
            return None  # The machine is busy: the server will be ready for the next attempt.
        # A server that has ended cannot import PyTorch, so another one would not help.
        self._is_enabled = self._server.is_alive()
        self.close()
        return None

    def close(self) -> None:
        """End the fork server; forked processes keep running."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _start(self) -> None:
        if self._server is not None or not self._is_enabled:
            return
        # The server takes 300 MB, most of which it shares with forked processes.
        limit = memory_limit()
        if (limit is None or limit >= 4 << 30) and available_memory() >= 2 << 30:
            with contextlib.suppress(OSError):
                self._server = ForkServer(self._environ)


def can_fork(command: Sequence[str], environ: Mapping[str, str], working_dir: str) -> bool:
    """Check that a command runs an official task by this interpreter in an existing folder."""
    return (
        tuple(command[1:3]) == _RUNS_MODULE
        and "".join(command[3:4]).startswith("mlbench_worker.tasks.")
        and shutil.which(command[0], path=environ.get("PATH")) == sys.executable
        and os.access(working_dir, os.X_OK)
    )
