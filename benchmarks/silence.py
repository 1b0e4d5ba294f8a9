"""Silence the master for a minute in several ways, and delete a run of 2 GB.

A run that is active meanwhile must be FINISHED each time.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import httpx

from benchmarks.measure import Figure, timed
from benchmarks.servers import Master, agent_token, know_pods, measured_master
from benchmarks.stacks import local_stack, stopped, wait_for_end
from benchmarks.stored import store_run
from mlbench.contract.records import Run
from mlbench.local.home import Home
from mlbench_master.database.models import Deletion, run_owner
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey
from tests.conftest import wait_for
from tests.support import silencers
from tests.support.stacks import order_steps, reload, service

_SECONDS = 60.0
_CLIENTS = 200
_READERS = 24

Silencing = Callable[[], AbstractContextManager[object]]


def silence(folder: Path) -> Iterator[Figure]:
    """Yield seconds since the oldest answer to an agent, for each way to silence the master."""
    with local_stack(folder) as (home, client):
        connection = home.read_connection()
        url, token = connection.url, connection.token

        def hold(request: bytes) -> Silencing:
            return lambda: silencers.occupied(url, [request] * _CLIENTS)

        def is_started(run: Run) -> bool:
            return reload(client, run).state == "STARTED"

        silencings: dict[str, Silencing] = {
            "nothing": nullcontext,
            f"{_CLIENTS} half heads": hold(silencers.half_head()),
            f"{_CLIENTS} half bodies": hold(silencers.half_body()),
            f"{_CLIENTS} half bodies with the token": hold(silencers.half_body(token=token)),
            f"{_CLIENTS} endless bodies with the token": hold(silencers.endless_body(token)),
            f"{_CLIENTS} clients that do not read their answers": hold(silencers.never_read(url)),
            f"{_READERS} reads while Prometheus hangs": lambda: _reading(home),
            "the database locked": lambda: _locked(home),
            "the API stopped": lambda: stopped(service(home, "gunicorn").children()[0]),
        }
        for name, silencing in silencings.items():
            run = order_steps(client, "silenced", steps=round(20 * _SECONDS), rate=20)
            wait_for(partial(is_started, run), what="the run starts")
            with silencing():
                oldest = silencers.oldest_answer(home, _SECONDS)
            wait_for_end(client, run, look_seconds=0.1)
            yield Figure(f"{name}: oldest answer", "s", [oldest])


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    with closing(sqlite3.connect(home.database, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


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
    with stopped(service(home, "--config.file")):
        for reader in readers:
            reader.start()
        yield
        over.set()
    for reader in readers:
        reader.join()


_LOG_BYTES = 2 << 30
_POLL_SECONDS = 0.05
_POD = "bystander"
_TIMEOUT_SECONDS = 1200.0


def deleting(folder: Path) -> list[Figure]:
    """Return how long the answer, the longest poll and the sweep take, and the file's sizes."""
    know_pods(folder, [_POD])
    polls, chunk = list[float](), os.urandom(512 << 10)
    with measured_master(folder) as master:
        run = store_run("deleted")
        for offset in range(0, _LOG_BYTES, len(chunk)):
            streams.append(StreamKey(run_owner(run.id), 1, 0, "stdout"), offset, chunk)
        before = _megabytes(folder)
        swept = threading.Event()
        poller = threading.Thread(target=_keep_polling, args=(master, swept, polls))
        poller.start()
        url = f"http://127.0.0.1:{master.port}/api/runs/{run.id}/"
        headers = dict(master.headers)
        answer = timed(lambda: httpx.delete(url, headers=headers, trust_env=False, timeout=60))

        def is_swept() -> bool:
            return not Deletion.select().exists() and _megabytes(folder) < _LOG_BYTES / 10e6

        sweep = timed(lambda: wait_for(is_swept, _TIMEOUT_SECONDS, "all is swept"))
        swept.set()
        poller.join()
    return [
        Figure("DELETE of a run with a log of 2 GB: its answer", "ms", [answer * 1000]),
        Figure("... the longest poll meanwhile", "ms", [max(polls) * 1000]),
        Figure("... until all is swept and given back", "s", [sweep]),
        Figure("... the database's files before", "MB", [before]),
        Figure("... the database's files after", "MB", [_megabytes(folder)]),
    ]


def _keep_polling(master: Master, finished: threading.Event, seconds: list[float]) -> None:
    """Poll as an agent does, and note how long each answer took."""
    headers = {"Authorization": f"Bearer {agent_token(_POD)}"}
    url = f"http://127.0.0.1:{master.port}/api/workers/{_POD}/poll"
    state = {"state": "idle", "ip": ""}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as agent:
        while not finished.wait(_POLL_SECONDS):
            seconds.append(timed(lambda: agent.post(url, json=state).raise_for_status()))


def _megabytes(folder: Path) -> float:
    files = (folder / "mlbench.db", folder / "mlbench.db-wal")
    return sum(path.stat().st_size for path in files if path.exists()) / 1e6
