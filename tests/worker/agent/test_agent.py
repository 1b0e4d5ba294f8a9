"""A real agent, under a master made for the test whose clock is 100 s behind."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import free_port, wait_for
from tests.worker.agent.one_run_master import BEHIND_SECONDS, Master

_TRAIN = """
import os
print(os.getcwd(), os.environ["MLBENCH_SEED"], os.environ["MLBENCH_DEADLINE"])
with open(os.environ["MLBENCH_METRICS_FILE"], "a") as file:
    file.write('{"time": 1, "name": "a", "value": 1}\\n')
"""


def test_a_run_from_its_start_to_its_last_byte(
    master: tuple[type[Master], str], tmp_path: Path
) -> None:
    served, url = master
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.py").write_text(_TRAIN)
    deadline_at = time.time() - BEHIND_SECONDS + 60
    served.assignment = {
        "run_id": 7,
        "attempt": 1,
        "rank": 0,
        "world_size": 1,
        "master_addr": "127.0.0.1",
        "master_port": free_port(),
        "command": [sys.executable, "train.py"],
        "working_dir": str(own),
        "cpus": [],
        "seed": 42,
        "deadline_at": deadline_at,
        "keeps_checkpoints": False,
    }
    options = {
        "--pod": "w-0",
        "--folder": str(tmp_path / "agent"),
        "--port": str(free_port()),
        "--master": url,
        "--token-file": str(tmp_path / "token"),
    }
    (tmp_path / "token").write_text("secret\n")
    agent = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "worker.agent",
            *(word for pair in options.items() for word in pair),
        ],
        env=os.environ | {"MLBENCH_GIT_COMMIT": "abc"},
    )
    try:
        wait_for(
            lambda: len(served.reports) > 1 and served.reports[-1]["state"] == "idle",
            what="the agent is done with the run",
        )
    finally:
        agent.terminate()
        agent.wait()

    first, second = map(json.loads, served.streams["metrics"].splitlines())
    assert second == {"time": 1, "name": "a", "value": 1}
    machine = first["machine"]
    assert machine["packages"]["pytest"] == pytest.__version__
    assert machine["git"] == {"commit": "abc", "dirty": None, "root": None}
    offset, uncertainty = machine["clock_offset_seconds"], machine["clock_uncertainty_seconds"]
    assert abs(offset - BEHIND_SECONDS) <= uncertainty < 10
    folder, seed, deadline = served.streams["stdout"].decode().split()
    assert (folder, seed) == (str(own), "42")
    assert float(deadline) == pytest.approx(deadline_at + offset, abs=1e-6)
