"""What silences the master for a minute, and a thousand agents: how old the oldest answer gets.

Beside each way to silence it, a run goes on that must be FINISHED.
"""

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path

import httpx
import psutil
from peewee import chunked

from benchmarks import agents
from benchmarks.measure import Figure
from benchmarks.servers import agent_token, know_pods, measured_master
from benchmarks.stacks import local_stack
from benchmarks.stored import store_run
from mlbench import ApiClient
from mlbench.home import Home
from mlbench_master.models import Run, Stream, run_owner
from tests.hostile.silencers import (
    endless_body,
    half_body,
    half_head,
    never_read,
    occupied,
    oldest_answer,
)
from tests.stacks import order_steps, service

AGENTS = 1000
RUNS = 10_000
_SECONDS = 60.0
_CLIENTS = 200
_READERS = 24


def measure(folder: Path) -> Iterator[Figure]:
    """Yield seconds since the oldest answer, and the shares of a core that the master takes."""
    yield from _many(folder)
    yield from _silenced(folder)


# --- Many agents, many runs. ---


def _many(folder: Path) -> Iterator[Figure]:
    part = folder / "many"
    part.mkdir()
    tokens = {pod: agent_token(pod) for pod in (f"many-{number}" for number in range(AGENTS))}
    know_pods(part, [*tokens])
    with measured_master(part) as master:
        _store_runs()
        api = psutil.Process(master.worker)
        [controller] = [
            p for p in psutil.Process().children() if "mlbench_master.controller" in p.cmdline()
        ]
        with _cpu(controller) as idle:
            time.sleep(10)
        yield Figure(f"controller, idle, {RUNS:,} runs", "% of core", [idle()])
        with _cpu(api) as busy:
            polled = agents.poll(master.port, tokens, _SECONDS)
        assert not polled.failures, polled
        yield Figure(f"{AGENTS:,} agents, {RUNS:,} runs: oldest answer", "s", [polled.oldest])
        yield Figure("  from a poll to its answer, median", "ms", [polled.median_ms])
        yield Figure("  answers a second", "1/s", [polled.answers / _SECONDS])
        yield Figure("  the API meanwhile", "% of core", [busy()])


def _store_runs() -> None:
    first = store_run("run-0")
    run = dict(first.__data__)
    stream = {"attempt": 1, "rank": 0, "size": 1000, "final_size": 1000, "delivered": 0}
    del run["id"]
    for some in chunked(range(first.id + 1, first.id + RUNS), 500):
        Run.insert_many([{**run, "id": number} for number in some]).execute()
        owners = [run_owner(number) for number in some]
        for name in ("stdout", "stderr"):
            Stream.insert_many([{**stream, "owner": o, "name": name} for o in owners]).execute()


@contextmanager
def _cpu(process: psutil.Process) -> Iterator[Callable[[], float]]:
    """Give how much of a core a process took inside the block, in percent."""

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    share = [0.0]
    before, began = used(), time.monotonic()
    yield lambda: share[0]
    share[0] = 100 * (used() - before) / (time.monotonic() - began)


# --- Each way to silence it. ---


def _silenced(folder: Path) -> Iterator[Figure]:
    with local_stack(folder) as (home, client):
        for name, silencing in _ways(home).items():
            oldest = _beside_a_run(home, client, silencing)
            yield Figure(f"{name}: oldest answer", "s", [oldest])


def _ways(home: Home) -> dict[str, Callable[[], AbstractContextManager[object]]]:
    connection = home.read_connection()
    url, token = connection.url, connection.token

    def hold(request: bytes) -> Callable[[], AbstractContextManager[object]]:
        return lambda: occupied(url, [request] * _CLIENTS)

    return {
        "nothing": nullcontext,
        f"{_CLIENTS} half heads": hold(half_head()),
        f"{_CLIENTS} half bodies": hold(half_body()),
        f"{_CLIENTS} half bodies with the token": hold(half_body(token=token)),
        f"{_CLIENTS} endless bodies with the token": hold(endless_body(token)),
        f"{_CLIENTS} clients that do not read plotly.js": hold(never_read(url)),
        f"{_READERS} reads while Prometheus hangs": lambda: _reading(home),
        "the database locked": lambda: _locked(home),
        "the API stopped": lambda: _hanging(service(home, "gunicorn").children()[0]),
    }


def _beside_a_run(
    home: Home, client: ApiClient, silencing: Callable[[], AbstractContextManager[object]]
) -> float:
    run = order_steps(client, "silenced", steps=round(20 * _SECONDS), rate=20)
    while client.get_run(run.id).result().value.state != "STARTED":
        time.sleep(0.1)
    with silencing():
        oldest = oldest_answer(home, _SECONDS)
    while (ended := client.get_run(run.id).result().value).active:
        time.sleep(0.1)
    assert ended.state == "FINISHED", ended.reason
    return oldest


@contextmanager
def _hanging(process: psutil.Process) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        # Gunicorn's arbiter may have replaced it meanwhile.
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    with closing(sqlite3.connect(home.database, isolation_level=None)) as opened:
        opened.execute("BEGIN IMMEDIATE")
        yield
        opened.execute("ROLLBACK")


@contextmanager
def _reading(home: Home) -> Iterator[None]:
    connection = home.read_connection()
    over = threading.Event()

    def read() -> None:
        headers = {"Authorization": f"Bearer {connection.token}"}
        with httpx.Client(headers=headers, timeout=30) as client:
            while not over.is_set():
                with suppress(httpx.HTTPError):
                    client.get(f"{connection.url}/api/metrics/?metric_type=run")

    readers = [threading.Thread(target=read) for _ in range(_READERS)]
    with _hanging(service(home, "--config.file")):
        for reader in readers:
            reader.start()
        yield
        over.set()
    for reader in readers:
        reader.join()
