"""Running a command as the ranks of a run: real processes, with the environment that agents set."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench import names
from tests.conftest import free_port


@dataclass(frozen=True)
class Rank:
    """A process that has been started as one rank of a run."""

    process: subprocess.Popen[str]
    metrics_file: Path

    def output(self, seconds: float = 60.0) -> tuple[str, str]:
        """Wait for its end, and return what it wrote to stdout and stderr."""
        return self.process.communicate(timeout=seconds)

    def series(self, metric: str) -> list[float]:
        """Return the values of a metric that it has recorded, in order."""
        lines = map(json.loads, self.metrics_file.read_text().splitlines())
        recorded = [line["metrics"] for line in lines if "metrics" in line]
        return [values[metric] for values in recorded if metric in values]

    def stated(self, what: str) -> list[Any]:
        """Return what it has stated of its goal or settings, in order."""
        lines = map(json.loads, self.metrics_file.read_text().splitlines())
        return [line[what] for line in lines if what in line]


def start_ranks(folder: Path, size: int, *command: str) -> list[Rank]:
    """Start ``python *command`` once for each rank, with one thread and a metrics file each."""
    port = free_port()
    return [_start(folder, rank, size, port, command) for rank in range(size)]


def finish(ranks: Sequence[Rank]) -> None:
    """Wait for the ranks; each must end well, with nothing on stderr."""
    finish_with_output(ranks)


def finish_with_output(ranks: Sequence[Rank]) -> list[str]:
    """Wait for the ranks, which must end well, and return what each wrote to stdout."""
    outputs = []
    for rank in ranks:
        output, errors = rank.output()
        assert (rank.process.returncode, errors) == (0, "")
        outputs.append(output)
    return outputs


def _start(folder: Path, rank: int, size: int, port: int, command: Sequence[str]) -> Rank:
    metrics_file = folder / f"metrics-{size}-{rank}.jsonl"
    environ = {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        names.ENV_METRICS_FILE: str(metrics_file),
    }
    process = subprocess.Popen(
        [sys.executable, *command],
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Rank(process, metrics_file)
