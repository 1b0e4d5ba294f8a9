"""A thousand workers that log 50 metrics a second each, with the agent's own link and files."""

import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import psutil
from peewee import fn

from benchmarks import agents
from benchmarks.agents import RequestLog, Work
from benchmarks.measure import Figure, timed
from benchmarks.servers import Master, agent_token, know_pods, measured_master
from benchmarks.stacks import stopped, wait_for_end
from benchmarks.watching import ask_board
from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench_master import timestamps
from mlbench_master.database.models import Stream, run_owner
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.streams import METRICS
from tests.support.rows import level, write

# The environment can set fewer, to find the limit.
WORKERS = int(os.environ.get("WORKERS", "1000"))
STEPS = int(os.environ.get("STEPS", "600"))
_AWAY_SECONDS = int(os.environ.get("AWAY", "300"))
_METRICS = 50
_LIMITS = {"MLBENCH_LIMIT_WORKERS": str(WORKERS), "MLBENCH_LIMIT_SERIES": str(WORKERS * 60)}
# Interval at which a curve is read, and time for which one rank's is read before a page opens.
_LOOK_SECONDS = 0.2
_FOLLOW_SECONDS = 10.0
# As its page asks for them: of the first rank, or of all.
_CURVES = ((1000, f"{names.TRAIN_LOSS} @ 0", f"{names.TRAIN_ACCURACY} @ 0"), (40, names.TRAIN_LOSS))
# Workers and steps of the run in which one rank prints this number of bytes.
_FEW, _FEW_STEPS, _PRINTED_BYTES = 200, 60, 1 << 30
# All is delivered again when what ranks have written lately alone is missing.
_LATE_STEPS = 5

T = TypeVar("T")


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the cost of a run of all workers, the waits of its readers, and its delays."""
    os.environ |= _LIMITS
    pods = [f"local-mlbench-worker-{number}" for number in range(WORKERS)]
    know_pods(folder, pods)
    with measured_master(folder) as master, agents.processes() as pool:
        stage = _Stage(folder, master, pool, pods)
        watched, logs = stage.run(Work(STEPS, _METRICS), lambda run: _watch(master, run))
        yield from watched.figures(logs)
        for printed in (0, _PRINTED_BYTES):
            few = Work(_FEW_STEPS, _METRICS, printed)
            watched, _ = stage.run(few, lambda run: _watch(master, run), min(_FEW, WORKERS))
            name = f"{_FEW} workers, one prints {printed >> 20} MB: a value after, 99th percentile"
            yield Figure(name, "s", [_p99(watched.delays)])
        away = Work(_AWAY_SECONDS + 180, _METRICS)
        seconds, _ = stage.run(away, lambda run: _return(master, run))
        yield Figure(f"master away for {_AWAY_SECONDS} s: until all is delivered", "s", [seconds])


@dataclass(frozen=True)
class _Stage:
    """A master, and the agents of its pods."""

    folder: Path
    master: Master
    pool: ProcessPoolExecutor
    pods: Sequence[str]

    def run(
        self, work: Work, meanwhile: Callable[[Run], T], workers: int = WORKERS
    ) -> tuple[T, list[RequestLog]]:
        """Have workers do a run; return the result of ``meanwhile``, and the requests of agents."""
        url = f"http://127.0.0.1:{self.master.port}"
        token = self.master.headers["Authorization"].removeprefix("Bearer ")
        tokens = {pod: agent_token(pod) for pod in self.pods[:workers]}
        working = agents.start(self.pool, tokens, url, self.folder / "agents", work)
        with ApiClient(url=url, token=token) as client:
            run = client.create_run("thousand", workers, None, benchmark="steps").result().value
            while client.get_run(run.id).result().value.state != "STARTED":
                time.sleep(0.2)
            result = meanwhile(run)
            logs = [future.result() for future in working]
            ended = wait_for_end(client, run, look_seconds=0.5)
            while ended.delivery is None:
                time.sleep(1.0)
                ended = client.get_run(run.id).result().value
        assert ended.delivery.in_prometheus == workers * work.steps * _METRICS, ended.delivery
        return result, logs


def _return(master: Master, run: Run) -> float:
    """Stop the master for a while; return the seconds until it has the values of that time."""
    streams = Stream.owner == run_owner(run.id), Stream.recorded > 0
    while Stream.select().where(*streams).count() < run.num_workers:
        time.sleep(0.5)
    began = time.monotonic()
    time.sleep(30)
    with stopped(*psutil.Process(master.worker).parents()[:1], *_processes(master)):
        time.sleep(_AWAY_SECONDS)
    back = time.monotonic()
    steps = Stream.select(fn.SUM(Stream.recorded) / run.num_workers / _METRICS).where(*streams)
    while steps.scalar() < min(_AWAY_SECONDS + 180, time.monotonic() - began - _LATE_STEPS):
        time.sleep(0.5)
    return time.monotonic() - back


@dataclass
class _Watched:
    """Measurements during the run, in seconds except ``cores`` and ``megabytes``."""

    delays: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    """Infinite where curves could not be read, as too much waited for Prometheus."""
    panels: list[float] = field(default_factory=list)
    """The slowest of a dashboard, each time."""
    lists: list[float] = field(default_factory=list)
    cores: float = 0.0
    megabytes: float = 0.0

    def figures(self, logs: Sequence[RequestLog]) -> Iterator[Figure]:
        """Yield what users, agents and the machine saw."""
        polls = [seconds for log in logs for seconds in log.polls]
        failures = [failure for log in logs for failure in log.failures]
        yield Figure("API and controller", "cores", [self.cores])
        yield Figure("  their memory at its largest", "MB", [self.megabytes])
        yield Figure("polls answered, median", "ms", [1000 * statistics.median(polls)])
        yield Figure("  99th percentile", "ms", [1000 * _p99(polls)])
        yield Figure("a value on the page after, median", "s", [statistics.median(self.delays)])
        yield Figure("  99th percentile", "s", [_p99(self.delays)])
        yield Figure("the run's page, all its answers", "ms", [1000 * page for page in self.pages])
        yield Figure("the slowest panel of its dashboard", "ms", [1000 * s for s in self.panels])
        yield Figure("the list of runs", "ms", [1000 * page for page in self.lists])
        yield Figure("answers to agents that were errors or late", "", [len(failures)])
        for failure in failures[:3]:
            print(f"  {failure:.200}")


def _p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[-1]


def _watch(master: Master, run: Run) -> _Watched:
    """Look as users do until a run has ended, and measure what the master takes meanwhile."""
    processes, watched = _processes(master), _Watched()
    prometheus, opened = PrometheusClient(master.prometheus_url), time.time()
    # Nothing is scraped here; dashboards find runs by these.
    scraped = {names.RUN_INFO: 1, names.RUN_STARTED: opened}.items()
    labels = {"run_id": str(run.id), "name": run.name}
    write(master.prometheus_url, [level(name, [opened + 1], at, **labels) for name, at in scraped])
    began, before = time.monotonic(), _cpu_seconds(processes)
    complete = Stream.select().where(
        Stream.owner == run_owner(run.id), Stream.final_size == Stream.size, Stream.name == METRICS
    )
    while True:
        watched.delays += _delays(master, run)
        if complete.count() == run.num_workers:  # and the controller seals it
            prometheus.close()
            return watched
        watched.cores = (_cpu_seconds(processes) - before) / (time.monotonic() - began)
        memory = sum(process.memory_info().rss for process in processes) / 1e6
        watched.megabytes = max(watched.megabytes, memory)
        opened_page = time.monotonic()
        for path in ("", "result/", "events/", "metrics/"):
            master.get(f"/api/runs/{run.id}/{path}")
        is_whole = True
        for points, *metrics in _CURVES:
            filters = "".join(f"&metric_filter={quote(str(metric))}" for metric in metrics)
            query = f"metric_type=run&added=false&summarize={points}{filters}"
            body = master.get(f"/api/metrics/{run.id}/?{query}", {200, 503}).body
            is_whole = is_whole and b'"status":503' not in body[:50]
        watched.pages.append(time.monotonic() - opened_page if is_whole else math.inf)
        watched.panels.append(max(ask_board(prometheus, "mlbench-run", opened, run.id)))
        watched.lists.append(timed(lambda: master.get("/api/runs/?limit=50")))


def _processes(master: Master) -> list[psutil.Process]:
    children = psutil.Process().children()
    controllers = [p for p in children if "mlbench_master.controller" in p.cmdline()]
    return [psutil.Process(master.worker), *controllers]


def _cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(cpu.user + cpu.system for cpu in times)


def _delays(master: Master, run: Run) -> Iterator[float]:
    """Follow a metric of a rank for a while: yield how old each new value is when it is read."""
    rank = random.randrange(run.num_workers)  # noqa: S311 - no secret
    name, newest = quote(f"{names.TRAIN_LOSS} @ {rank}"), 0.0
    end = time.monotonic() + _FOLLOW_SECONDS
    while time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        since = timestamps.seconds_to_text(time.time() - 2 * _FOLLOW_SECONDS)
        query = f"metric_type=run&added=false&metric_filter={name}&since={since}"
        answer = json.loads(master.get(f"/api/metrics/{run.id}/?{query}", {200, 503}).body)
        if "status" in answer:  # of a master that is behind
            continue
        now = time.time()
        dates = [point["date"] for points in answer.values() for point in points]
        moments = [datetime.fromisoformat(date).timestamp() for date in dates]
        if newest:
            yield from (now - moment for moment in moments if moment > newest)
        newest = max(moments, default=newest)
