"""What deleting a run with a log of 2 GB costs others, and the room that it gives back."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from benchmarks.measure import Figure
from benchmarks.runs import store_run
from benchmarks.servers import (
    Master,
    agent_token,
    database_url,
    know_pods,
    running_master,
    running_prometheus,
)
from mlbench_master.models import Deletion, Run, open_database, run_owner
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey

_LOG_BYTES = 2 << 30
_PIECE_BYTES = 512 << 10
_POLL_SECONDS = 0.05
_POD = "bystander"
_MOST_SECONDS = 1200.0


def measure(folder: Path) -> list[Figure]:
    """Return how long the answer, the longest poll and the sweep take, and the file's sizes."""
    database = open_database(database_url(folder))
    run_id = _store_log()
    before = _megabytes(folder)
    know_pods(folder, [_POD])
    polls: list[float] = []
    with (
        running_prometheus(folder) as prometheus_url,
        running_master(folder, prometheus_url) as master,
        httpx.Client(base_url=f"http://127.0.0.1:{master.port}", trust_env=False) as user,
    ):
        swept = threading.Event()
        poller = threading.Thread(target=_poll, args=(master, swept, polls))
        poller.start()
        answer = _timed(
            lambda: user.delete(f"/api/runs/{run_id}/", headers=dict(master.headers), timeout=60)
        )
        sweep = _timed(lambda: _wait_until_small(folder))
        swept.set()
        poller.join()
    database.close()
    return [
        Figure("DELETE of a run with a log of 2 GB: its answer", "ms", [answer * 1000]),
        Figure("... the longest poll meanwhile", "ms", [max(polls) * 1000]),
        Figure("... until all is swept and given back", "s", [sweep]),
        Figure("... the database's files before", "MB", [before]),
        Figure("... the database's files after", "MB", [_megabytes(folder)]),
    ]


def _store_log() -> int:
    run_id = int(store_run("deleted").id)
    Run.update(state="FINISHED").where(Run.id == run_id).execute()
    piece = os.urandom(_PIECE_BYTES)
    for offset in range(0, _LOG_BYTES, _PIECE_BYTES):
        streams.append(StreamKey(run_owner(run_id), 1, 0, "stdout"), offset, piece)
    return run_id


def _poll(master: Master, done: threading.Event, seconds: list[float]) -> None:
    """Poll as an agent does, and note how long each answer took."""
    headers = {"Authorization": f"Bearer {agent_token(_POD)}"}
    url = f"http://127.0.0.1:{master.port}/api/workers/{_POD}/poll"
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as agent:
        while not done.wait(_POLL_SECONDS):
            seconds.append(
                _timed(lambda: _check(agent.post(url, json={"state": "idle", "ip": ""})))
            )


def _check(answer: httpx.Response) -> None:
    answer.raise_for_status()


def _wait_until_small(folder: Path) -> None:
    deadline = time.monotonic() + _MOST_SECONDS
    while Deletion.select().exists() or _megabytes(folder) > _LOG_BYTES / 10e6:
        assert time.monotonic() < deadline, "the room was not given back"
        time.sleep(0.1)


def _megabytes(folder: Path) -> float:
    files = (folder / "mlbench.db", folder / "mlbench.db-wal")
    return sum(path.stat().st_size for path in files if path.exists()) / 1e6


def _timed(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun
