"""Cost of the hook that lets an agent look into a process, in processes that do not hang.

Starts of Python and trainings of ``digits`` on two ranks, alternately with and without the hook
(``hook/sitecustomize.py``).
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from benchmarks.measure import timed
from benchmarks.servers import free_port
from mlbench.contract import names
from mlbench_sources.mlbench_core import HOOK

_STARTS, _TRAININGS = 40, 20


def measure(folder: Path) -> Iterator[str]:
    """Yield a line for the start, and one for a step."""
    os.mkfifo(folder / "stacks")
    hooked = {
        "PYTHONPATH": os.pathsep.join([str(HOOK), os.environ.get("PYTHONPATH", "")]),
        names.ENV_DIAGNOSIS: str(folder),
        names.ENV_AGENT: "http://127.0.0.1:1",
    }

    def start(added: Mapping[str, str]) -> float:
        environ = {**os.environ, **added}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, all is compiled at each start
        command = [sys.executable, "-c", "pass"]
        return 1000 * timed(lambda: subprocess.run(command, env=environ, check=True))

    yield _compare("start of a Python", "ms", _STARTS, start, hooked)
    yield _compare(
        *("step of digits on two ranks", "ms", _TRAININGS),
        lambda added: 1000 * _step(folder, added),
        hooked,
    )


def _compare(
    name: str,
    unit: str,
    times: int,
    look: Callable[[Mapping[str, str]], float],
    hooked: Mapping[str, str],
) -> str:
    """Return medians with and without, and the median ratio of pairs with its interval of 95 %.

    The interval is between order statistics: it needs no distribution.
    """
    pairs = []
    for number in range(times):
        order = ({}, hooked) if number % 2 else (hooked, {})
        figures = {bool(added): look(added) for added in order}
        pairs.append((figures[True], figures[False]))
    ratios = sorted(hook / plain for hook, plain in pairs)
    rank = int(times / 2 - 0.98 * times**0.5)
    with_it, without = (statistics.median(side) for side in zip(*pairs, strict=True))
    more = statistics.median(hook - plain for hook, plain in pairs)
    return (
        f"{name}: {with_it:.2f} {unit} with, {without:.2f} without, {more:+.2f} in a pair; "
        f"{statistics.median(ratios):.3f} times ({ratios[rank - 1]:.3f} to {ratios[-rank]:.3f}), "
        f"{times} pairs"
    )


def _step(folder: Path, added: Mapping[str, str]) -> float:
    """Return the seconds of the median step of an epoch, as rank 0 records its training time."""
    metrics, port = folder / "metrics.jsonl", free_port()
    metrics.unlink(missing_ok=True)
    options = ("--target", "100", "--epochs", "1")
    ranks = []
    for rank in range(2):
        environ = {
            **{**os.environ, **added, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"},
            **{"RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
            **{names.ENV_RANK: str(rank), names.ENV_WORLD_SIZE: "2"},
            names.ENV_METRICS_FILE: str(metrics if rank == 0 else folder / "other.jsonl"),
        }
        command = [sys.executable, "-P", "-m", "mlbench_worker.tasks.digits", *options]
        quiet = subprocess.DEVNULL
        ranks.append(subprocess.Popen(command, env=environ, stdout=quiet))
    assert [process.wait() for process in ranks] == [0, 0]
    lines = map(json.loads, metrics.read_text().splitlines())
    records = (line.get("metrics", {}) for line in lines)
    seconds = [float(line[names.TRAIN_SECONDS]) for line in records if names.TRAIN_SECONDS in line]
    return statistics.median(later - sooner for sooner, later in pairwise(seconds))
