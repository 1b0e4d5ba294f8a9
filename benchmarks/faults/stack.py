"""A local stack to be disturbed, on either database: its processes, started again at will."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench import ApiClient, names
from mlbench.errors import NotConnectedError
from mlbench.home import Home

_WORKERS = 2
_READY_SECONDS = 120.0
# What a user may see die, by a word of its command line.
PROCESSES = {
    "Prometheus": "--config.file",
    "API": "gunicorn",
    "controller": "mlbench_master.controller",
    "exporter": "mlbench_exporter.app",
    "agent 0": f"{names.LOCAL_POD_PREFIX}0",
    "agent 1": f"{names.LOCAL_POD_PREFIX}1",
}


@dataclass
class Stack:
    """A running stack."""

    home: Home
    database_url: str | None
    """None for SQLite in its home."""
    process: psutil.Popen | None = None

    def start(self) -> None:
        """Start its supervisor, and wait until everything answers."""
        environ = {**os.environ, names.ENV_HOME: str(self.home.root)}
        if self.database_url:
            environ[names.ENV_DATABASE_URL] = self.database_url
        self.home.connection_file.unlink(missing_ok=True)
        with (self.home.root.parent / "supervisor.log").open("ab") as log:
            self.process = psutil.Popen(
                [sys.executable, "-m", "mlbench.stack.launch", "--workers", str(_WORKERS)],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(self._is_ready, _READY_SECONDS, "the stack is ready")

    def find(self, name: str) -> psutil.Process | None:
        """Return one of its processes; None while it is being started again."""
        word = PROCESSES[name]
        for child in self._children():
            with suppress(psutil.Error):
                if any(word in part for part in child.cmdline()):
                    return child
        return None

    def ranks(self) -> list[psutil.Process]:
        """Return the training processes."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environ = process.environ()
                is_ours = environ.get(names.ENV_HOME) == str(self.home.root)
                if is_ours and environ.get(names.ENV_RANK):
                    found.append(process)
        return found

    def kill_supervisor(self) -> None:
        """Kill the supervisor with -9, which ends all of the stack, and start it again."""
        assert self.process is not None
        family = self._children()
        self.process.kill()
        self.process.wait()
        psutil.wait_procs(family, 30)
        self.start()

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    @contextmanager
    def client(self) -> Iterator[ApiClient]:
        """Lend a client of its master."""
        with ApiClient.from_home(self.home) as client:
            yield client

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the supervisor ended"
        try:
            self.home.read_connection()
        except NotConnectedError:
            return False
        return True

    def _children(self) -> list[psutil.Process]:
        assert self.process is not None
        with suppress(psutil.Error):
            found: list[psutil.Process] = self.process.children()
            return found
        return []


@contextmanager
def running_stack(folder: Path, database_url: str | None = None) -> Iterator[Stack]:
    """Run a stack with two workers, with its home in the folder, until the block ends."""
    home = Home(folder / "home")
    home.root.mkdir(parents=True, exist_ok=True)
    stack = Stack(home, database_url)
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it does not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)
