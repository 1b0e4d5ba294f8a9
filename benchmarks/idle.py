"""CPU use of the stack itself: without runs, and during a run of two ranks."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.measure import Figure
from benchmarks.stacks import local_stack
from benchmarks.stored import store_run
from mlbench.local import launch
from mlbench.local.home import Home
from mlbench_master.database.models import open_database

_WINDOW_SECONDS = 60.0
_WINDOWS = 3
_RUNS = 500
# After a start or an end, until all is quiet.
_SETTLE_SECONDS = 15.0
_PARTS = {
    "mlbench.local.launch": "supervisor",
    "prometheus.yml": "Prometheus",
    "gunicorn": "API",
    "mlbench_master.controller": "controller",
    "mlbench_exporter.app": "exporter",
    "mlbench_worker.agent": "two agents",
}


def measure(folder: Path) -> Iterator[Figure]:
    """Yield percents of a core for each part of a local stack, and for all of them."""
    with local_stack(folder) as (home, client):
        yield from _watch(home, "idle")
        with open_database(f"sqlite:///{home.database}"):
            for number in range(_RUNS):
                store_run(f"run-{number}")
        yield from _watch(home, f"idle, {_RUNS} runs")
        seconds = int(2 * _SETTLE_SECONDS + _WINDOWS * _WINDOW_SECONDS)
        args = {"steps": str(10 * seconds), "rate": "10"}
        client.create_run("watched", 2, None, benchmark="steps", args=args).result()
        yield from _watch(home, "beside a run")


def _watch(home: Home, when: str) -> Iterator[Figure]:
    time.sleep(_SETTLE_SECONDS)
    shares = defaultdict(list)
    for _ in range(_WINDOWS):
        before, begin = _cpu_seconds(home), time.monotonic()
        time.sleep(_WINDOW_SECONDS)
        after, seconds = _cpu_seconds(home), time.monotonic() - begin
        for part, spent in after.items():
            shares[part].append(100 * (spent - before[part]) / seconds)
    shares["all"] = [sum(window) for window in zip(*shares.values(), strict=True)]
    for part, values in shares.items():
        yield Figure(f"{when}: {part}", "% of core", values)


def _cpu_seconds(home: Home) -> Mapping[str, float]:
    """Return the CPU time of each part so far, without the training processes."""
    supervisor = psutil.Process(launch.running_supervisor(home))
    seconds = defaultdict[str, float](float)
    for process in [supervisor, *supervisor.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            command, times = " ".join(process.cmdline()), process.cpu_times()
            if part := next((part for word, part in _PARTS.items() if word in command), None):
                seconds[part] += times.user + times.system
    return seconds
