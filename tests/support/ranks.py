"""Run a command as the ranks of a run: real processes with the environment that agents set."""

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mlbench.contract import names
from mlbench_sources.mlbench_core import HOOK
from tests.conftest import free_port, wait_for
from tests.support.known import known


@dataclass(frozen=True)
class Rank:
    """A process that was started as one rank of a run."""

    pid: int
    metrics_file: Path
    folder: Path
    """Folder of the rank's output, and of its exit code once it has ended."""

    def output(self, seconds: float = 180.0) -> tuple[str, str]:
        """Wait for the process to end, and return its stdout and stderr."""
        code = self.folder / "code"
        wait_for(code.exists, seconds, f"the end of {self.pid}")
        return (self.folder / "stdout").read_text(), (self.folder / "stderr").read_text()

    @property
    def returncode(self) -> int:
        return int((self.folder / "code").read_text())

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.output()

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines of the metrics file."""
        return list(map(json.loads, self.metrics_file.read_text().splitlines()))

    def series(self, metric: str) -> list[float]:
        """Return the recorded values of a metric, in order."""
        recorded = [line["metrics"] for line in self.lines() if "metrics" in line]
        return [values[metric] for values in recorded if metric in values]

    def stated(self, field: str) -> list[Any]:
        """Return the reported targets or settings, in order."""
        return [line[field] for line in self.lines() if field in line]


def start_ranks(
    folder: Path,
    size: int,
    *command: str,
    python: str = sys.executable,
    watched: Mapping[str, str] | None = None,
) -> list[Rank]:
    """Start ``python *command`` once for each rank, with one thread and a metrics file each.

    ``watched`` is added to the environment. With it, the agent's ``sitecustomize`` is imported.
    """
    port = free_port()
    return [_start(folder, rank, size, port, command, python, watched) for rank in range(size)]


def finish(ranks: Sequence[Rank]) -> list[str]:
    """Wait for the ranks, which must succeed, and return each one's stdout."""
    outputs = []
    for rank in ranks:
        output, errors = rank.output()
        assert (rank.returncode, errors) == (0, "")
        outputs.append(output)
    return outputs


def run_ranks(folder: Path, size: int, *command: str) -> list[Rank]:
    """Run ranks to their end, in a folder that is created if needed."""
    folder.mkdir(exist_ok=True)
    ranks = start_ranks(folder, size, *command)
    finish(ranks)
    return ranks


def assert_stopped_at(target: float, ranks: Sequence[Rank]) -> list[float]:
    """Check that all ranks stopped together at the target, and return the accuracies."""
    accuracies = ranks[0].series(names.VAL_ACCURACY)
    assert accuracies[-1] >= target > max(accuracies[:-1], default=0)
    for rank in ranks:
        assert rank.series(names.VAL_ACCURACY) == accuracies
        assert rank.series(names.VAL_LOSS) == ranks[0].series(names.VAL_LOSS)
    return accuracies


def assert_same_losses(ranks: Sequence[Rank], others: Sequence[Rank]) -> None:
    """Check that two runs recorded identical losses, for as long as ``others`` trained."""
    for rank, other in zip(ranks, others, strict=True):
        for metric in (names.TRAIN_LOSS, names.VAL_LOSS):
            losses = other.series(metric)
            assert losses
            assert rank.series(metric)[: len(losses)] == losses


def batch_losses(ranks: Sequence[Rank], batch_size: int) -> list[float]:
    """Return the mean loss of each batch over all ranks."""
    ends = [batch_size * number // len(ranks) for number in range(len(ranks) + 1)]
    shares = [end - begin for begin, end in pairwise(ends)]
    recorded = zip(*(rank.series(names.TRAIN_LOSS) for rank in ranks), strict=True)
    return [
        sum(loss * share for loss, share in zip(losses, shares, strict=True)) / batch_size
        for losses in recorded
    ]


def _start(
    folder: Path,
    rank: int,
    size: int,
    port: int,
    command: Sequence[str],
    python: str,
    watched: Mapping[str, str] | None,
) -> Rank:
    metrics_file = folder / f"metrics-{size}-{rank}.jsonl"
    rank_folder = Path(tempfile.mkdtemp(prefix=f"rank-{rank}-", dir=folder))
    environ = {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        names.ENV_METRICS_FILE: str(metrics_file),
    }
    if watched is not None:
        place = {names.ENV_RANK: str(rank), names.ENV_WORLD_SIZE: str(size)}
        environ |= {names.ENV_AGENT: "mlbench:token@127.0.0.1:1", **place, **watched}
    # A test that joined a world in this process has set it.
    inherited = {n: v for n, v in os.environ.items() if n != names.ENV_TIME_COMMUNICATION}
    request = {
        "command": command,
        "hook": "" if watched is None else str(HOOK),
        "environ": {**inherited, **environ},
        "folder": os.getcwd(),  # noqa: PTH109
        "outputs": [str(rank_folder / "stdout"), str(rank_folder / "stderr")],
        "code": str(rank_folder / "code"),
    }
    server = _fork_server(python)
    assert server.stdin is not None
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    return Rank(int(known(server.stdout).readline()), metrics_file, rank_folder)


@functools.cache
def _fork_server(python: str) -> subprocess.Popen[bytes]:
    """Start the fork server for ranks, once per test process."""
    server = subprocess.Popen(
        [python, "-m", "tests.worker.fork_server"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(server.communicate)
    return server
