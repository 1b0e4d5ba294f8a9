"""CPU time of commands, from the start of the interpreter to its end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from benchmarks.measure import Figure, alternate
from benchmarks.stacks import local_stack
from mlbench.contract import names

_COMMANDS = ("--help", "status", "run --help")


def measure(folder: Path) -> Iterator[Figure]:
    """Yield seconds of processor time, user and system."""
    with local_stack(folder) as (home, _):
        environ = {**os.environ, names.ENV_HOME: str(home.root)}
        # Users have the compiled modules, which some machines for tests never write.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)

        def cpu_seconds(command: str) -> float:
            before = getrusage(RUSAGE_CHILDREN)
            call = [sys.executable, "-m", "mlbench", *command.split()]
            subprocess.run(call, env=environ, stdout=subprocess.DEVNULL, check=True)
            after = getrusage(RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

        measures = {f"mlbench {command}": partial(cpu_seconds, command) for command in _COMMANDS}
        yield from alternate(9, "s", measures)
