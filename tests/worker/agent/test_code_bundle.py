"""The agent bundled as one file: its requirements, and a real agent under a test master."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zipfile import ZipFile

import pytest

from mlbench_worker.agent.code_bundle import write_bundle
from tests.conftest import free_port, wait_for
from tests.support.assignments import ASSIGNMENT
from tests.support.processes import run_text
from tests.support.scripted import Asked, Reply, answering

_BEHIND_SECONDS = 100.0
# A Python with only its standard library, in an empty environment.
_BARE = ("env", "-i", sys.executable, "-I", "-S")
_REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "agent.pyz"
    write_bundle(path)
    return path


def test_it_needs_only_the_standard_library(bundle: Path, tmp_path: Path) -> None:
    ended = run_text([*_BARE, bundle, "--help"], cwd=tmp_path, check=True)
    assert "--master MASTER" in ended.stdout


def test_the_same_code_makes_the_same_file(bundle: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == bundle.read_bytes()


def test_an_older_python_is_refused_in_one_line(bundle: Path) -> None:
    pretend = "import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_path(sys.argv[1])"
    ended = run_text([*_BARE, "-c", pretend, bundle])
    assert ended.returncode == 1
    assert ended.stderr == (
        "MLBench's agent needs Python 3.11 or newer as python3; this image has 3.9\n"
    )
    ast.parse(ZipFile(bundle).read("__main__.py"), feature_version=(3, 4))


@dataclass
class Master:
    """Gives an agent one assignment, and accepts its streams. Its clock is behind."""

    assignment: dict[str, Any]
    reports: list[dict[str, Any]] = field(default_factory=list)
    streams: dict[str, bytes] = field(default_factory=dict)

    def answer(self, asked: Asked) -> Reply:
        """Respond to a poll, or accept a piece of a stream."""
        if asked.method == "PUT":
            url = urlsplit(asked.path)
            name, [offset] = url.path.rpartition("/")[2], parse_qs(url.query)["offset"]
            held = self.streams.get(name, b"")
            self.streams[name] = held[: int(offset)] + asked.body
            return Reply(body={"offset": len(self.streams[name]), "next_ship_seconds": 0.1})
        self.reports.append(report := json.loads(asked.body))
        shipped = all(
            len(self.streams.get(name, b"")) == size
            for name, size in report.get("sizes", {"": 1}).items()
        )
        do = "start" if len(self.reports) == 1 else "stop" if shipped else "wait"
        body = {"do": do, "next_poll_seconds": 0.05, "time": time.time() - _BEHIND_SECONDS}
        return Reply(body=body | {"assignment": self.assignment if do == "start" else None})


_TRAIN = """
import json, os, sys
print(json.dumps([os.getcwd(), sys.path, dict(os.environ)]))
with open(os.environ["MLBENCH_METRICS_FILE"], "a") as file:
    file.write('{"time": 1, "name": "a", "value": 1}\\n')
"""


def test_it_runs_an_assignment_and_ships_every_byte(bundle: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.py").write_text(_TRAIN)
    deadline_at = time.time() - _BEHIND_SECONDS + 60
    assignment = replace(
        ASSIGNMENT,
        command=(sys.executable, "train.py"),
        working_dir=str(own),
        cpus=(),
        deadline_at=deadline_at,
    )
    (tmp_path / "token").write_text("secret\n")
    own_environ = {"PATH": os.environ["PATH"], "MLBENCH_GIT_COMMIT": "abc", "OMP_NUM_THREADS": "3"}
    master = Master(asdict(assignment))
    with answering(master.answer) as server:
        options = {
            "--pod": "w-0",
            "--folder": str(tmp_path / "not/made/yet"),
            "--port": str(free_port()),
            "--master": server.url,
            "--token-file": str(tmp_path / "token"),
        }
        words = [word for pair in options.items() for word in pair]
        command = [sys.executable, "-I", "-S", str(bundle), *words]
        agent = subprocess.Popen(command, cwd=tmp_path, env=own_environ)
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
    assert machine["packages"]["pytest"] == pytest.__version__, "not the command's Python"
    assert machine["git"] == {"commit": "abc", "dirty": None, "root": None}
    offset, uncertainty = machine["clock_offset_seconds"], machine["clock_uncertainty_seconds"]
    assert abs(offset - _BEHIND_SECONDS) <= uncertainty < 10
    folder, path, environ = json.loads(master.streams["stdout"])
    assert folder == str(own)
    assert not any(str(bundle) in place for place in path)
    assert environ["PYTHONPATH"] == str(bundle / "mlbench_sources/hook")
    assert environ.items() >= {**own_environ, "MLBENCH_SEED": "42"}.items()
    assert float(environ["MLBENCH_DEADLINE"]) == pytest.approx(deadline_at + offset, abs=1e-6)


_NEEDS_COLLECTIVES = """
import os, sys
from pathlib import Path
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
places = [place for place in sys.path if place.endswith(".pyz")]
print(sys.modules["mlbench"].__file__, places, flush=True)
os._exit(0)  # as in ddp_training.py
"""


def test_communication_is_timed_in_a_python_without_mlbench(bundle: Path, tmp_path: Path) -> None:
    hook = bundle / "mlbench_sources/hook"
    environ = {
        # The .pth file of an editable mlbench works in site-packages, but not on PYTHONPATH.
        "PYTHONPATH": os.pathsep.join([str(hook), sysconfig.get_path("purelib")]),
        "MLBENCH_AGENT": "mlbench:token@127.0.0.1:1",
        "MLBENCH_METRICS_FILE": str(tmp_path / "metrics.jsonl"),
    }
    python = Path(sys.base_prefix, "bin", "python3")
    ended = run_text([python, "-c", _NEEDS_COLLECTIVES], env=environ, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{bundle / 'mlbench/__init__.py'} []\n"
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert list(lines)[-1]["step"] == 5
