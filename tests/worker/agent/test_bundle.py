"""The agent as one file: what it needs, and a real one under a master made for the test."""

import ast
import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from mlbench_worker.agent.bundle import write_bundle
from tests.conftest import free_port, wait_for
from tests.support.processes import run_text
from tests.worker.agent.one_run_master import BEHIND_SECONDS, Master

# A Python that knows nothing but its standard library, in an empty environment.
_BARE = ("env", "-i", sys.executable, "-I", "-S")
_REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "agent.pyz"
    write_bundle(path)
    return path


def test_it_needs_the_standard_library_alone(bundle: Path, tmp_path: Path) -> None:
    ended = run_text([*_BARE, bundle, "--help"], cwd=tmp_path, check=True)
    assert "--master MASTER" in ended.stdout


def test_the_same_code_makes_the_same_file(bundle: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == bundle.read_bytes()


def test_an_older_python_is_told_so_in_one_line(bundle: Path) -> None:
    pretend = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path(sys.argv[1])"
    ended = run_text([*_BARE, "-c", pretend, bundle])
    assert ended.returncode == 1
    assert ended.stderr == (
        "MLBench's agent needs Python 3.11 or newer as python3; this image has 3.9\n"
    )
    ast.parse(ZipFile(bundle).read("__main__.py"), feature_version=(3, 4))


_TRAIN = """
import json, os, sys
print(json.dumps([os.getcwd(), sys.path, dict(os.environ)]))
with open(os.environ["MLBENCH_METRICS_FILE"], "a") as file:
    file.write('{"time": 1, "name": "a", "value": 1}\\n')
"""


def test_it_brings_a_run_from_its_start_to_its_last_byte(
    bundle: Path, tmp_path: Path, master: Master
) -> None:
    """The master's clock is 100 s behind. The command sees nothing of the agent."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.py").write_text(_TRAIN)
    deadline_at = time.time() - BEHIND_SECONDS + 60
    master.assignment = {
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
        "--folder": str(tmp_path / "not/made/yet"),
        "--port": str(free_port()),
        "--master": master.url,
        "--token-file": str(tmp_path / "token"),
    }
    (tmp_path / "token").write_text("secret\n")
    own_environ = {"PATH": os.environ["PATH"], "MLBENCH_GIT_COMMIT": "abc", "OMP_NUM_THREADS": "3"}
    agent = subprocess.Popen(
        [sys.executable, "-I", "-S", bundle, *(word for pair in options.items() for word in pair)],
        cwd=tmp_path,
        env=own_environ,
    )
    try:
        wait_for(
            lambda: len(master.reports) > 1 and master.reports[-1]["state"] == "idle",
            what="the agent is done with the run",
        )
    finally:
        agent.terminate()
        assert agent.wait() == 0

    first, second = map(json.loads, master.streams["metrics"].splitlines())
    assert second == {"time": 1, "name": "a", "value": 1}
    machine = first["machine"]
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["project"]
    assert machine["mlbench"] == project["version"]
    assert machine["packages"]["pytest"] == pytest.__version__, "those of the command's Python"
    assert machine["git"] == {"commit": "abc", "dirty": None, "root": None}
    offset, uncertainty = machine["clock_offset_seconds"], machine["clock_uncertainty_seconds"]
    assert abs(offset - BEHIND_SECONDS) <= uncertainty < 10
    folder, path, environ = json.loads(master.streams["stdout"])
    assert folder == str(own)
    assert not any(str(bundle) in place for place in path)
    assert environ["PYTHONPATH"] == str(bundle / "mlbench_worker/agent/sources/hook")
    assert environ.items() >= {**own_environ, "MLBENCH_SEED": "42"}.items()
    assert float(environ["MLBENCH_DEADLINE"]) == pytest.approx(deadline_at + offset, abs=1e-6)
