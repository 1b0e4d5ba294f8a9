"""Running commands, and looking at the processes of a stack from outside."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil


def run_text(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, also to a bad one; return its exit code and what it printed."""
    how = {"check": False, **options}
    done: subprocess.CompletedProcess[str]
    done = subprocess.run(command, capture_output=True, text=True, **how)  # noqa: PLW1510
    return done


def children(pid: int) -> list[psutil.Process]:
    """Return the processes that a process has started, in that order, and that have not ended."""
    return left(psutil.Process(pid).children())


def descendants(pid: int) -> list[psutil.Process]:
    """Return the same with all that these have started."""
    return left(psutil.Process(pid).children(recursive=True))


def left(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those that have not ended. One that only waits to be reaped has."""
    return [process for process in processes if _goes_on(process)]


def _goes_on(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
