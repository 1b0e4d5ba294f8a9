"""A forked process is what a new one would be, and ends as one would."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract import names
from mlbench_worker.agent.fork_servers import ForkServers, can_fork
from tests.worker.agent.test_attempt import ASSIGNMENT
from tests.worker.agent.test_training_process import gone, run

_DIGITS = (sys.executable, "-P", "-m", "mlbench_worker.tasks.digits", "--epochs=1", "--seed=7")
_SHOWN = ["--", sys.executable, "-P", "-m", "tests.worker.agent.shown"]


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=os.pathsep)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


def shown(folder: Path, *flags: str) -> Any:
    folder.mkdir()
    ended = run(folder, f"in={folder.parent}", *flags, *_SHOWN, "one", "two words")
    assert ended["code"] == 3
    return json.loads((folder / "stdout").read_text().replace(str(folder), "FOLDER"))


def test_it_has_what_a_new_process_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    core = str(min(os.sched_getaffinity(0)))
    assert shown(tmp_path / "forked", "forked", core) == shown(tmp_path / "new", core)


def test_two_have_different_random_numbers() -> None:
    code = """
import os, sys
from mlbench_worker.agent.fork_servers import ForkServer
from mlbench_worker.agent.training_process import adopt_orphans

adopt_orphans()
server = ForkServer(os.environ)
assert server.is_ready(30.0)
command = [sys.executable, "-P", "-m", "tests.worker.agent.random_numbers"]
files = sys.stdout.buffer, sys.stderr.buffer
for _ in range(2):
    assert server.fork(command, dict(os.environ), None, files).wait() == 0
"""
    lines = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert len(lines) == 2
    one, other = (line.split() for line in lines)
    assert all(number != same for number, same in zip(one, other, strict=True)), lines


def test_it_is_stopped(tmp_path: Path) -> None:
    assert run(tmp_path, "stop", "forked", *_SHOWN, "wait")["code"] == -15
    [pid] = [int(line) for line in (tmp_path / "stderr").read_text().split()]
    assert gone(pid)


def test_a_task_has_the_losses_of_a_new_process(tmp_path: Path) -> None:
    """Whatever its hash seed, which differs here: forked tasks share that of their agent."""

    def losses(folder: Path, *flags: str) -> list[str]:
        folder.mkdir()
        assert run(folder, *flags, "--", *_DIGITS)["code"] == 0
        return re.findall(
            r'"(?:train_loss|val_\w+@?\d*)": ?[^,}]+', (folder / "metrics").read_text()
        )

    forked = losses(tmp_path / "forked", "forked")
    assert len(forked) >= 12
    assert forked == losses(tmp_path / "new")


@pytest.mark.parametrize(
    ("command", "folder", "can"),
    [
        (_DIGITS, "/", True),
        (_DIGITS, "/no/folder", False),
        (("/other/python", *_DIGITS[1:]), "/", False),
        ((sys.executable, "-P", "-m", "train"), "/", False),
        ((sys.executable, "-P"), "/", False),
        (("true",), "/", False),
    ],
)
def test_official_tasks_are_forked(command: Sequence[str], folder: str, can: bool) -> None:
    assert can_fork(command, os.environ, folder) is can


def test_there_is_none_where_the_user_wants_none_or_pytorch_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError")
    of_digits = replace(ASSIGNMENT, command=_DIGITS)
    for variables in ({names.ENV_FORK_SERVER: "0"}, {"PYTHONPATH": str(tmp_path)}):
        assert ForkServers({**os.environ, **variables}).find(of_digits) is None
