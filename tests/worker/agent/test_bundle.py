"""The agent as one file: what it needs, what it says of itself, and what it leaves alone."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import free_port, wait_for
from tests.worker.agent.one_run_master import Master
from worker.agent.bundle import write_bundle

# A Python that knows nothing but its standard library, in an empty environment.
_BARE = ("env", "-i", sys.executable, "-I", "-S")
_REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "agent.pyz"
    write_bundle(path)
    return path


def test_it_needs_the_standard_library_alone(bundle: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*_BARE, bundle, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "--master MASTER" in ended.stdout


def test_the_same_code_makes_the_same_file(bundle: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == bundle.read_bytes()


def test_an_older_python_is_told_so_in_one_line(bundle: Path) -> None:
    pretend = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path(sys.argv[1])"
    ended = subprocess.run(
        [*_BARE, "-c", pretend, bundle], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "MLBench's agent needs Python 3.11 or newer as python3; this image has 3.9\n"
    )


def test_an_older_python_can_parse_what_tells_it(bundle: Path) -> None:
    ast.parse(ZipFile(bundle).read("__main__.py"), feature_version=(3, 4))


def test_it_runs_a_command_that_sees_nothing_of_it(
    bundle: Path, tmp_path: Path, master: tuple[type[Master], str]
) -> None:
    served, url = master
    show = "import json, os, sys; print(json.dumps([sys.path, sorted(os.environ)]))"
    served.assignment = {
        "run_id": 1,
        "attempt": 1,
        "rank": 0,
        "world_size": 1,
        "master_addr": "127.0.0.1",
        "master_port": free_port(),
        "command": [sys.executable, "-S", "-c", show],
        "cpus": [],
        "keeps_checkpoints": False,
    }
    folder = tmp_path / "not/made/yet"
    (tmp_path / "token").write_text("secret\n")
    words = ("--pod", "w-0", "--folder", folder, "--port", str(free_port()), "--master", url)
    with_token = ("--token-file", tmp_path / "token")
    agent = subprocess.Popen(
        [sys.executable, "-I", "-S", bundle, *words, *with_token],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "3"},
    )
    try:
        wait_for(
            lambda: len(served.reports) > 1 and served.reports[-1]["state"] == "idle",
            what="the agent is done with the run",
        )
    finally:
        agent.terminate()
        assert agent.wait() == 0

    path, environ = json.loads(served.streams["stdout"])
    assert not any(str(bundle) in place for place in path)
    assert "OMP_NUM_THREADS" in environ
    assert "PYTHONPATH" not in environ
    machine = json.loads(served.streams["metrics"])["machine"]
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["project"]
    assert machine["mlbench"] == project["version"]
    assert machine["packages"]["pytest"] == pytest.__version__, "those of the command's Python"
