"""A supervisor with stand-ins for the parts of a stack: they start at once and only sleep.

usage: fake_stack.py FIRST_PART…, e.g. ``sleep 1000``. The home folder is $MLBENCH_HOME.
$OPTIONAL_PART is the command of an optional part, and $SECOND_WORKER the command of the second
worker.
"""

import os
import sys
from unittest.mock import patch

from mlbench.contract.errors import MLBenchError
from mlbench.local import launch, supervisor
from mlbench.local.daemon import configure_logging
from mlbench.local.home import Home, StackConnection
from mlbench.local.stack_services import Listen, Service, StackServices

_SLEEP = ("sleep", "1000")


class FakeServices(StackServices):
    """Two fixed parts and any number of workers. None of them serves HTTP."""

    def __init__(self, home: Home, workers: int, listen: Listen | None = None) -> None:
        self.connection = StackConnection("http://127.0.0.1:1", "token", "http://127.0.0.1:2")
        self.fixed = (
            self._sleeper("first", tuple(sys.argv[1:]) or _SLEEP),
            Service("second", _SLEEP, os.environ, cores=frozenset({min(os.sched_getaffinity(0))})),
            *self._optional(),
        )

    def worker(self, number: int) -> Service:
        program = os.environ.get("SECOND_WORKER") if number == 1 else None
        command = (program,) if program else _SLEEP
        return Service(f"worker-{number}", command, os.environ, is_worker=True)

    def _optional(self) -> tuple[Service, ...]:
        command = os.environ.get("OPTIONAL_PART")
        return (Service("third", (command,), os.environ, optional=True),) if command else ()

    def _sleeper(self, name: str, command: tuple[str, ...] = _SLEEP) -> Service:
        # Nothing listens on port 1, so this part is never ready.
        port = 1 if "never-ready" in command else None
        return Service(name, command, os.environ, port)


def main() -> None:
    """Run until SIGTERM."""
    configure_logging()
    try:
        with (
            patch.object(launch, "StackServices", FakeServices),
            patch.object(supervisor, "_TICK_SECONDS", 0.1),
            # Kill parts that ignore SIGTERM early: these tests cannot wait for 10 s.
            patch.object(supervisor, "_TERMINATE_SECONDS", 0.5),
            patch.object(supervisor, "_MAX_PAUSE_SECONDS", 1.0),
        ):
            launch.run_in_front(Home.from_environ(), 2)
    except MLBenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
