"""A forked process has the properties of a new one, and ends like one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract import names
from mlbench_worker.agent.fork_servers import ForkServers, can_fork
from tests.support.assignments import ASSIGNMENT
from tests.support.known import known
from tests.worker.agent.test_training_process import gone, run

_PYTHON = (sys.executable, "-P", "-m")
_DIGITS = (*_PYTHON, "mlbench_worker.tasks.digits", "--epochs=1", "--seed=7")
_SHOWN = ("--", *_PYTHON, "tests.worker.agent.shown")


Run = Callable[..., dict[str, float]]


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[Run]:
    """Run commands like an agent with a fork server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=os.pathsep)
        patch.setenv("OMP_NUM_THREADS", "2")
        with subprocess.Popen(
            [sys.executable, "-m", "tests.worker.agent.run_process"],
            env={**os.environ, "PYTHONHASHSEED": "7"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as agent:

            def run_forked(folder: Path, *arguments: str) -> dict[str, float]:
                request = [{**os.environ}, [str(folder), *arguments]]
                known(agent.stdin).write(json.dumps(request) + "\n")
                known(agent.stdin).flush()
                ended: dict[str, float] = json.loads(known(agent.stdout).readline())
                return ended

            yield run_forked


def shown(run: Run, folder: Path, *flags: str) -> Any:
    folder.mkdir()
    ended = run(folder, f"in={folder.parent}", *flags, *_SHOWN, "one", "two words")
    assert ended["code"] == 3
    return json.loads((folder / "stdout").read_text().replace(str(folder), "FOLDER"))


def test_a_forked_process_has_the_properties_of_a_new_one(
    forked: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    core = str(min(os.sched_getaffinity(0)))
    assert shown(forked, tmp_path / "forked", core) == shown(run, tmp_path / "new", core)


def test_two_forked_processes_have_different_random_numbers(forked: Run, tmp_path: Path) -> None:
    for _ in range(2):
        assert forked(tmp_path, "--", *_PYTHON, "tests.worker.agent.random_numbers")["code"] == 0
    numbers = (tmp_path / "stdout").read_text().split()
    assert len(numbers) == len(set(numbers)) == 8


def test_a_forked_process_can_be_stopped(forked: Run, tmp_path: Path) -> None:
    assert forked(tmp_path, "stop", *_SHOWN, "wait")["code"] == -15
    [pid] = [int(line) for line in (tmp_path / "stderr").read_text().split()]
    assert gone(pid)


def test_a_forked_task_has_the_losses_of_a_new_process(forked: Run, tmp_path: Path) -> None:
    """The hash seed differs here, because forked tasks share their agent's seed."""

    def losses(run: Run, folder: Path) -> list[str]:
        folder.mkdir()
        assert run(folder, "--", *_DIGITS)["code"] == 0
        return re.findall(
            r'"(?:train_loss|val_\w+@?\d*)": ?[^,}]+', (folder / "metrics").read_text()
        )

    own = losses(forked, tmp_path / "forked")
    assert len(own) >= 12
    assert own == losses(run, tmp_path / "new")


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


def test_no_server_starts_if_disabled_or_without_pytorch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError")
    of_digits = replace(ASSIGNMENT, command=_DIGITS)
    for variables in ({names.ENV_FORK_SERVER: "0"}, {"PYTHONPATH": str(tmp_path)}):
        assert ForkServers({**os.environ, **variables}).find(of_digits) is None
