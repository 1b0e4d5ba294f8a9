"""What commands take of a processor, from the start of the interpreter to its end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from benchmarks.measure import Figure, Measure, alternate
from benchmarks.stacks import local_stack
from mlbench.contract import names

_COMMANDS = ("--help", "status", "run --help")


def measure(folder: Path) -> Iterator[Figure]:
    """Yield seconds of processor time, user and system."""
    with local_stack(folder) as (home, _):
        environ = {**os.environ, names.ENV_HOME: str(home.root)}
        # Users have the compiled modules, which some machines for tests never write.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield from alternate(9, "s", {f"mlbench {one}": _taken(one, environ) for one in _COMMANDS})


def _taken(command: str, environ: dict[str, str]) -> Measure:
    def measure_once() -> float:
        before = getrusage(RUSAGE_CHILDREN)
        call = [sys.executable, "-m", "mlbench", *command.split()]
        subprocess.run(call, env=environ, stdout=subprocess.DEVNULL, check=True)
        after = getrusage(RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return measure_once
