"""The faults: processes killed or stopped, a Prometheus without its data, a disk that is full."""

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.faults.stack import PROCESSES, Stack, wait_for

_LONGEST_PAUSE_SECONDS = 2.0
_SUPERVISOR, _RANK, _API_WORKER = "supervisor", "a rank", "the API's worker"


def kill_at_random(
    stack: Stack, times: int, choose: random.Random, between: Callable[[], None]
) -> None:
    """Kill processes with -9, each a random while after the other; call ``between`` before each."""
    names = [*PROCESSES, _API_WORKER, _RANK, _RANK, _SUPERVISOR]
    for _ in range(times):
        time.sleep(choose.uniform(0, _LONGEST_PAUSE_SECONDS))
        between()
        _kill(stack, choose.choice(names), choose)


def _kill(stack: Stack, name: str, choose: random.Random) -> None:
    if name == _SUPERVISOR:
        stack.kill_supervisor()
        return
    with suppress(psutil.Error, IndexError):
        if name == _RANK:
            choose.choice(stack.ranks()).kill()
        elif name == _API_WORKER:
            api = stack.find("API")
            if api is not None:
                choose.choice(api.children()).kill()
        elif (process := stack.find(name)) is not None:
            process.kill()


def hang(stack: Stack, name: str, seconds: float) -> None:
    """Stop a process, with its children, for so long."""
    process = stack.find(name)
    assert process is not None, f"{name} runs"
    family = [process, *process.children(recursive=True)]
    for member in family:
        member.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    for member in family:
        member.send_signal(signal.SIGCONT)


def empty_prometheus(stack: Stack) -> None:
    """Kill Prometheus with -9, and have it start again with an empty disk."""
    process = stack.find("Prometheus")
    assert process is not None, "Prometheus runs"
    assert stack.process is not None
    # Or it would be there again before its data are gone.
    stack.process.suspend()
    try:
        process.kill()
        psutil.wait_procs([process], 10)
        for path in (stack.home.prometheus / "data").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        stack.process.resume()
    wait_for(lambda: stack.find("Prometheus"), 30, "Prometheus runs again")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Have a folder be a disk of this size, such as ``96m``; needs root."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, seconds: float) -> None:
    """Leave no room on a disk for so long, however much of its own the stack gives back."""
    filler = disk / "filler"
    until = time.monotonic() + seconds
    with filler.open("ab", buffering=0) as file:
        while time.monotonic() < until:
            with suppress(OSError):
                while file.write(b"\0" * 4096):
                    pass
            time.sleep(0.05)
    filler.unlink()
