"""The faults: processes killed or stopped, a Prometheus without its data, a disk that is full."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.faults.stack import PROCESSES, Stack, wait_for

_LONGEST_PAUSE_SECONDS = 2.0


def kill_at_random(
    stack: Stack, times: int, choose: random.Random, between: Callable[[], None]
) -> None:
    """Kill processes with -9, each a random while after the other; call ``between`` before each."""
    names = [*PROCESSES, "the API's worker", "a rank", "a rank", "supervisor"]
    for _ in range(times):
        time.sleep(choose.uniform(0, _LONGEST_PAUSE_SECONDS))
        between()
        _kill(stack, choose.choice(names), choose)


def _kill(stack: Stack, name: str, choose: random.Random) -> None:
    if name == "supervisor":
        stack.kill_supervisor()
        return
    with suppress(psutil.Error):
        match name:
            case "a rank":
                processes = stack.ranks()
            case "the API's worker":
                processes = [child for api in stack.find("API") for child in api.children()]
            case _:
                processes = stack.find(name)
        if processes:  # else it is being started again
            choose.choice(processes).kill()


def hang(stack: Stack, name: str, seconds: float) -> None:
    """Stop a process, with its children, for so long."""
    [process] = stack.find(name)
    family = [process, *process.children(recursive=True)]
    for member in family:
        member.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    for member in family:
        member.send_signal(signal.SIGCONT)


def empty_prometheus(stack: Stack) -> None:
    """Kill Prometheus with -9, and have it start again with an empty disk."""
    [process] = stack.find("Prometheus")
    supervisor = stack.supervisor
    # Or it would be there again before its data are gone.
    supervisor.suspend()
    try:
        process.kill()
        psutil.wait_procs([process], 10)
        for path in (stack.home.prometheus / "data").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        supervisor.resume()
    wait_for(lambda: stack.find("Prometheus"), 30, "Prometheus runs again")


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
