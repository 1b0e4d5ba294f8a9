"""Fixtures for the agent's tests: committed code, and attempts."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mlbench_worker.agent.attempt import Attempt
from tests.conftest import wait_for
from tests.support.assignments import ASSIGNMENT
from tests.support.processes import run_text

Begin = Callable[..., Attempt]

_WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return its output."""
    done = run_text(["git", *_WHO, *arguments], cwd=folder, check=True)
    return done.stdout.strip()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A committed script in a folder of a repository."""
    path = tmp_path / "repository/code/train.py"
    path.parent.mkdir(parents=True)
    path.write_text("print(1)\n")
    git(path.parent.parent, "init", "-q")
    git(path.parent, "add", ".")
    git(path.parent, "commit", "-q", "-m", "first")
    return path


@pytest.fixture(autouse=True)
def _no_other_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the test's other children alive: an agent ends all children when a process ends."""
    monkeypatch.setattr("mlbench_worker.agent.training_process.children", lambda: ())


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """An attempt whose process has not started."""
    return Attempt.create(tmp_path, ASSIGNMENT)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start an attempt of a command. By default, wait until the command has written a line."""
    begun = []

    def start(*command: str, waits: bool = True) -> Attempt:
        attempt = Attempt.create(tmp_path, replace(ASSIGNMENT, cpus=(), command=command))
        attempt.start(dict(os.environ), lambda: None)
        begun.append(attempt)
        if waits:
            wait_for(lambda: attempt.file("stdout").read_text(), what="it has begun")
        return attempt

    yield start
    for attempt in begun:
        if attempt.ended.is_set():
            continue
        assert attempt.pid is not None
        for child in psutil.Process(attempt.pid).children():
            child.kill()
        os.killpg(attempt.pid, signal.SIGKILL)
        assert attempt.ended.wait(10)
