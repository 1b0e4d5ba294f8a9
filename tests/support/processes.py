"""Run commands, and inspect the processes of a stack from outside."""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil


def run_text(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, without raising if it fails; return its exit code and output."""
    options = {"check": False} | options
    process: subprocess.CompletedProcess[str]
    process = subprocess.run(command, capture_output=True, text=True, **options)  # noqa: PLW1510
    return process


def children(pid: int) -> list[psutil.Process]:
    """Return a process's running children, in the order in which they were started."""
    return select_running(psutil.Process(pid).children())


def descendants(pid: int) -> list[psutil.Process]:
    """Return all running descendants of a process."""
    return select_running(psutil.Process(pid).children(recursive=True))


def select_running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that are still running. Zombies are not."""
    return [process for process in processes if _is_running(process)]


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
