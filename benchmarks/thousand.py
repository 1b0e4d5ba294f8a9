"""A thousand workers that log 50 metrics a second each, with the agent's own link and files."""

import json
import os
import random
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil

from benchmarks import agents
from benchmarks.agents import Seen, Work
from benchmarks.measure import Figure, timed
from benchmarks.servers import Master, agent_token, know_pods, measured_master
from mlbench import ApiClient
from mlbench_master import times

# Fewer, as the environment says, show where the limit is.
WORKERS = int(os.environ.get("WORKERS", "1000"))
STEPS = int(os.environ.get("STEPS", "600"))
_METRICS = 50
_LIMITS = {"MLBENCH_LIMIT_WORKERS": str(WORKERS), "MLBENCH_LIMIT_SERIES": str(WORKERS * 60)}
# A curve is read so often, and for so long that of one rank; then a page is opened.
_LOOK_SECONDS = 0.2
_FOLLOW_SECONDS = 10.0


def measure(folder: Path) -> Iterator[Figure]:
    """Yield what a run of all workers costs, and how long its readers wait."""
    pods = {f"local-mlbench-worker-{number}": number for number in range(WORKERS)}
    tokens = {pod: agent_token(pod) for pod in pods}
    know_pods(folder, [*pods])
    os.environ |= _LIMITS
    with measured_master(folder) as master, agents.processes() as pool:
        url = f"http://127.0.0.1:{master.port}"
        token = master.headers["Authorization"].removeprefix("Bearer ")
        working = agents.start(pool, tokens, Work(url, folder / "agents", STEPS, _METRICS))
        with ApiClient(url=url, token=token) as client:
            run = client.create_run("thousand", WORKERS, None, benchmark="steps").result().value
            while client.get_run(run.id).result().value.state != "STARTED":
                time.sleep(0.2)
            with _watched(master, run.id) as watched:
                seen = [future.result() for future in working]
            while (ended := client.get_run(run.id).result().value).active:
                time.sleep(0.2)
        assert ended.state == "FINISHED", ended.reason
        assert ended.delivery is not None
        assert ended.delivery.in_prometheus == WORKERS * STEPS * _METRICS, ended.delivery
        yield from watched.figures(seen)
        yield Figure("samples found by query", "", [ended.delivery.in_prometheus])


class _Watched:
    """What was measured while the run went on."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.pages: list[float] = []
        self.lists: list[float] = []
        self.cores = 0.0
        self.megabytes = 0.0
        self.refused = 0
        """Pages whose curves could not be read, as too much waited for Prometheus."""

    def figures(self, seen: Sequence[Seen]) -> Iterator[Figure]:
        """Yield what users, agents and the machine saw."""
        polls = [seconds for one in seen for seconds in one.polls]
        failures = [failure for one in seen for failure in one.failures]
        yield Figure("API and controller", "cores", [self.cores])
        yield Figure("  their memory at its largest", "MB", [self.megabytes])
        yield Figure("polls answered, median", "ms", [1000 * statistics.median(polls)])
        yield Figure("  99th percentile", "ms", [1000 * _p99(polls)])
        yield Figure("a value on the page after, median", "s", [statistics.median(self.delays)])
        yield Figure("  99th percentile", "s", [_p99(self.delays)])
        yield Figure("the run's page, all its answers", "ms", [1000 * one for one in self.pages])
        yield Figure("the list of runs", "ms", [1000 * one for one in self.lists])
        yield Figure("  opened while the master was behind", "times", [self.refused])
        yield Figure("answers to agents that were errors or late", "", [len(failures)])
        for failure in failures[:3]:
            print(f"  {failure:.200}")


def _p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[-1]


@contextmanager
def _watched(master: Master, run_id: int) -> Iterator[_Watched]:
    """Look as users do until the block ends, and measure what the master takes meanwhile."""
    processes = _processes(master)
    watched, over = _Watched(), threading.Event()

    def look() -> None:
        while not over.is_set():
            watched.delays += _delays(master, run_id, over)
            memory = sum(process.memory_info().rss for process in processes) / 1e6
            watched.megabytes = max(watched.megabytes, memory)
            began = time.monotonic()
            if _open_page(master, run_id):
                watched.pages.append(time.monotonic() - began)
            else:
                watched.refused += 1
            watched.lists.append(timed(lambda: master.get("/api/runs/?limit=50")))

    began, before = time.monotonic(), _cpu_seconds(processes)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        yield watched
        watched.cores = (_cpu_seconds(processes) - before) / (time.monotonic() - began)
        over.set()
        looking.result()


def _processes(master: Master) -> list[psutil.Process]:
    controllers = [
        one for one in psutil.Process().children() if "mlbench_master.controller" in one.cmdline()
    ]
    return [psutil.Process(master.worker), *controllers]


def _cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    return sum(one.cpu_times().user + one.cpu_times().system for one in processes)


def _delays(master: Master, run_id: int, over: threading.Event) -> Iterator[float]:
    """Follow a metric of a rank for a while: yield how old each new value is when it is read."""
    rank = random.randrange(WORKERS)  # noqa: S311 - no secret
    name, seen = f"metric_0%20%40%20{rank}", 0.0
    end = time.monotonic() + _FOLLOW_SECONDS
    while time.monotonic() < end and not over.wait(_LOOK_SECONDS):
        since = times.seconds_to_text(time.time() - 2 * _FOLLOW_SECONDS)
        query = f"metric_type=run&added=false&metric_filter={name}&since={since}"
        answer = json.loads(master.get(f"/api/metrics/{run_id}/?{query}", {200, 503}).body)
        if "status" in answer:  # of a master that is behind
            continue
        now = time.time()
        dates = [point["date"] for points in answer.values() for point in points]
        moments = [datetime.fromisoformat(date).timestamp() for date in dates]
        if seen:
            yield from (now - moment for moment in moments if moment > seen)
        seen = max(moments, default=seen)


def _open_page(master: Master, run_id: int) -> bool:
    """Fetch what the page of a run does when it is opened; return whether its curves came."""
    curves = "metric_type=run&added=false&metric_filter=metric_0&summarize=400"
    for what in ("", "result/", "events/", "metrics/"):
        master.get(f"/api/runs/{run_id}/{what}")
    answer = master.get(f"/api/metrics/{run_id}/?{curves}", {200, 503}).body
    return b'"status":503' not in answer[:50]
