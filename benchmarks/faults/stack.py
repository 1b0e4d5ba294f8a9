"""A local stack to be disturbed, on either database: its processes, started again at will."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import psutil

from mlbench import ApiClient, names
from mlbench.home import Home
from mlbench.stack import launch
from tests.support.stacks import service, training

WORKERS = 2
# What a user may see die, by a word of its command line.
PROCESSES = {
    "Prometheus": "--config.file",
    "API": "gunicorn",
    "controller": "mlbench_master.controller",
    "exporter": "mlbench_exporter.app",
    "agent 0": f"{names.LOCAL_POD_PREFIX}0",
    "agent 1": f"{names.LOCAL_POD_PREFIX}1",
}


@dataclass(frozen=True)
class Stack:
    """A running stack."""

    home: Home

    @property
    def supervisor(self) -> psutil.Process:
        """Return the process whose children are all others."""
        return psutil.Process(launch.running_supervisor(self.home))

    def find(self, name: str) -> list[psutil.Process]:
        """Return one of its processes; none while it is being started again."""
        with suppress(psutil.Error, ValueError):
            return [service(self.home, PROCESSES[name])]
        return []

    def ranks(self) -> list[psutil.Process]:
        """Return the training processes."""
        return [process for rank in range(WORKERS) for process in training(self.home, rank)]

    def kill_supervisor(self) -> None:
        """Kill the supervisor with -9, which ends all of the stack, and start it again."""
        supervisor = self.supervisor
        children = supervisor.children()
        supervisor.kill()
        supervisor.wait()
        psutil.wait_procs(children, 30)
        launch.start_detached(self.home, WORKERS, port=None)

    @contextmanager
    def client(self) -> Iterator[ApiClient]:
        """Lend a client of its master."""
        with ApiClient.from_home(self.home) as client:
            yield client


@contextmanager
def running_stack(folder: Path, database_url: str | None = None) -> Iterator[Stack]:
    """Run a stack with its home in the folder until the block ends, by default on SQLite there."""
    stack = Stack(Home(folder / "home"))
    environ = {names.ENV_DATABASE_URL: database_url} if database_url else {}
    with patch.dict(os.environ, environ):
        launch.start_detached(stack.home, WORKERS, port=None)
        try:
            yield stack
        finally:
            launch.stop(stack.home)


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
