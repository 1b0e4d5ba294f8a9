"""The faults: processes killed or stopped, a Prometheus without its data, a disk that is full."""

import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.stacks import stopped
from mlbench.contract import names
from mlbench.local import launch
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.stacks import service, training

WORKERS = 2
_MAX_PAUSE_SECONDS = 2.0
# Processes that may die, by a word of their command lines.
_PROCESSES = {
    "Prometheus": "--config.file",
    "API": "gunicorn",
    "controller": "mlbench_master.controller",
    "exporter": "mlbench_exporter.app",
    "agent 0": f"{names.LOCAL_POD_PREFIX}0",
    "agent 1": f"{names.LOCAL_POD_PREFIX}1",
}


def kill_at_random(home: Home, times: int, between: Callable[[], None]) -> None:
    """Kill processes with -9, each a random while after the other; call ``between`` before each."""
    choose = random.Random(16)  # noqa: S311 - the same choices each time, not a secret
    for _ in range(times):
        time.sleep(choose.uniform(0, _MAX_PAUSE_SECONDS))
        between()
        name = choose.choice([*_PROCESSES, "the API's worker", "a rank", "a rank", "supervisor"])
        if name == "supervisor":
            supervisor = _supervisor(home)
            children = supervisor.children()
            supervisor.kill()  # which ends the whole stack
            supervisor.wait()
            psutil.wait_procs(children, 30)
            launch.start_detached(home, WORKERS)
            continue
        with suppress(psutil.Error, ValueError, IndexError):  # it is being started again
            match name:
                case "a rank":
                    processes = [p for rank in range(WORKERS) for p in training(home, rank)]
                case "the API's worker":
                    processes = service(home, _PROCESSES["API"]).children()
                case _:
                    processes = [service(home, _PROCESSES[name])]
            choose.choice(processes).kill()


def _supervisor(home: Home) -> psutil.Process:
    return psutil.Process(launch.running_supervisor(home))


def hang(home: Home, name: str, seconds: float) -> None:
    """Stop a process and its children for some seconds."""
    process = service(home, _PROCESSES[name])
    with stopped(process, *process.children(recursive=True)):
        time.sleep(seconds)


def empty_prometheus(home: Home) -> None:
    """Kill Prometheus with -9, and have it start again with an empty disk."""
    process = service(home, _PROCESSES["Prometheus"])
    with stopped(_supervisor(home)):  # or it would be there again before its data are gone
        process.kill()
        psutil.wait_procs([process], 10)
        for path in (home.prometheus / "data").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def is_back() -> bool:
        with suppress(psutil.Error, ValueError):
            return service(home, _PROCESSES["Prometheus"]).pid != process.pid
        return False

    wait_for(is_back, 30, "Prometheus runs again")


def fill(disk: Path, seconds: float) -> None:
    """Keep a disk full for some seconds, however much space the stack frees."""
    filler = disk / "filler"
    until = time.monotonic() + seconds
    with filler.open("ab", buffering=0) as file:
        while time.monotonic() < until:
            with suppress(OSError):
                while file.write(b"\0" * 4096):
                    pass
            time.sleep(0.05)
    filler.unlink()
