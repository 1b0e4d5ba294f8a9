"""The processes that a real torchrun starts find the job that they are ranks of."""

import sys
from pathlib import Path

import orjson
import pytest

from mlbench.job import Job
from tests.support.processes import run_text

_TORCHRUN = Path(sys.executable).with_name("torchrun")
# All attempts but the last fail.
_PRINT = r"""
import dataclasses, json, os, sys
from mlbench.job import find_job

job = find_job(os.environ)
sys.stdout.write(json.dumps(dataclasses.asdict(job)) + "\n")  # at once, as ranks share it
sys.stdout.flush()
sys.exit(job.attempt <= job.max_restarts)
"""


def _jobs(*options: str) -> list[Job]:
    """Return what the processes that torchrun starts find, by attempt and rank."""
    if not _TORCHRUN.exists():
        pytest.skip("torchrun is missing (PyTorch)")
    command: list[str | Path] = [
        _TORCHRUN,
        "--nproc-per-node",
        "2",
        *options,
        "--no-python",
        sys.executable,
    ]
    ended = run_text([*command, "-c", _PRINT], timeout=120)
    assert ended.returncode == 0, ended.stderr
    jobs = [Job(**orjson.loads(line)) for line in ended.stdout.splitlines()]
    return sorted(jobs, key=lambda job: (job.attempt, job.rank))


def test_torchrun_names_each_run_of_its_own() -> None:
    jobs, others = _jobs("--standalone"), _jobs("--standalone")
    key = jobs[0].key
    assert jobs == [Job(key, rank, 2, "torchrun") for rank in range(2)]
    assert others[0].key != key


def test_what_torchrun_begins_anew_is_the_same_job() -> None:
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "lm")
    first, *jobs = _jobs(*rendezvous, "--max-restarts", "1")
    assert (first.key, first.attempt, first.max_restarts) == ("torchrun-lm", 1, 1)
    assert jobs[-2:] == [Job("torchrun-lm", rank, 2, "torchrun", 2, 1) for rank in range(2)]
