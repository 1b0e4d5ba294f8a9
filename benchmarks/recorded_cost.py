"""Cost of ``mlbench record`` for a command, and how fast the ranks of a large job join."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import patch

from benchmarks.measure import Figure, alternate, timed
from benchmarks.stacks import local_stack
from mlbench.contract import names
from mlbench.contract.join_token import make, new_holder
from mlbench_worker.agent.master_client import MasterClient

_RANKS, _CALLERS = 1000, 32
# Steps of about 2 ms, which is short. CPU time is counted, because the machine may be shared.
_LOOP = """\
import time; from mlbench import Tracker
begin, tracker = time.process_time(), Tracker()
while (seconds := time.process_time() - begin) < 5:
    sum(i * i for i in range(20_000))
    tracker.step(samples=1, train_loss=0.5)
print(tracker.steps / seconds)
"""


def measure(folder: Path) -> Iterator[Figure]:
    """Yield seconds of a command that does nothing, or sleeps, and steps per processor second."""
    with local_stack(folder) as (home, _):
        environ = {**os.environ, names.ENV_HOME: str(home.root)}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        record = [str(Path(sys.executable).with_name("mlbench")), "record", "--"]
        loop = [sys.executable, "-c", _LOOP]

        def run(command: list[str], **more: str) -> str:
            where = environ | more
            return subprocess.check_output(command, env=where, text=True, stderr=subprocess.DEVNULL)

        for line in ("true", "sleep 2"):
            commands = {line: line.split(), f"mlbench record -- {line}": [*record, *line.split()]}
            measures = {
                name: partial(timed, partial(run, command)) for name, command in commands.items()
            }
            yield from alternate(7, "s", measures)
        into = {names.ENV_METRICS_FILE: str(folder / "metrics.jsonl")}
        alone, recorded = (lambda: float(run(loop, **into)), lambda: float(run([*record, *loop])))
        ways = {"a loop that writes its losses": alone, "the same, recorded": recorded}
        yield from alternate(5, "steps/s", ways)


def join_rate(folder: Path) -> list[Figure]:
    """Return the seconds in which all ranks of a job join, of three jobs."""
    limit = patch.dict(os.environ, MLBENCH_LIMIT_WORKERS=str(_RANKS))
    with limit, local_stack(folder) as (home, _):
        connection = home.read_connection()
        token = make(connection.token, int(time.time()) + 3600, new_holder())

        def join(job: int, rank: int) -> None:
            fields = {"key": str(job), "rank": rank, "num_workers": _RANKS, "launcher": "slurm"}
            fields |= {"command": "true", "host": "here", "uid": secrets.token_hex(16)}
            MasterClient(connection.url, token).join(fields)

        def join_all(job: int) -> None:
            with ThreadPoolExecutor(_CALLERS) as pool:
                list(pool.map(partial(join, job), range(_RANKS)))

        return [Figure("1000 ranks join", "s", [timed(partial(join_all, job)) for job in range(3)])]
