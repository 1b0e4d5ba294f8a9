"""What deleting a run with a log of 2 GB costs others, and the room that it gives back."""

import os
import threading
import time
from pathlib import Path

import httpx

from benchmarks.measure import Figure, timed
from benchmarks.servers import Master, agent_token, know_pods, measured_master
from benchmarks.stored import store_run
from mlbench_master.models import Deletion, run_owner
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey

_LOG_BYTES = 2 << 30
_CHUNK_BYTES = 512 << 10
_POLL_SECONDS = 0.05
_POD = "bystander"
_TIMEOUT_SECONDS = 1200.0


def measure(folder: Path) -> list[Figure]:
    """Return how long the answer, the longest poll and the sweep take, and the file's sizes."""
    know_pods(folder, [_POD])
    polls: list[float] = []
    with measured_master(folder) as master:
        run_id = _store_log()
        before = _megabytes(folder)
        swept = threading.Event()
        poller = threading.Thread(target=_poll, args=(master, swept, polls))
        poller.start()
        url = f"http://127.0.0.1:{master.port}/api/runs/{run_id}/"
        headers = dict(master.headers)
        answer = timed(lambda: httpx.delete(url, headers=headers, trust_env=False, timeout=60))
        sweep = timed(lambda: _wait_until_small(folder))
        swept.set()
        poller.join()
    return [
        Figure("DELETE of a run with a log of 2 GB: its answer", "ms", [answer * 1000]),
        Figure("... the longest poll meanwhile", "ms", [max(polls) * 1000]),
        Figure("... until all is swept and given back", "s", [sweep]),
        Figure("... the database's files before", "MB", [before]),
        Figure("... the database's files after", "MB", [_megabytes(folder)]),
    ]


def _store_log() -> int:
    run_id = int(store_run("deleted").id)
    chunk = os.urandom(_CHUNK_BYTES)
    for offset in range(0, _LOG_BYTES, _CHUNK_BYTES):
        streams.append(StreamKey(run_owner(run_id), 1, 0, "stdout"), offset, chunk)
    return run_id


def _poll(master: Master, done: threading.Event, seconds: list[float]) -> None:
    """Poll as an agent does, and note how long each answer took."""
    headers = {"Authorization": f"Bearer {agent_token(_POD)}"}
    url = f"http://127.0.0.1:{master.port}/api/workers/{_POD}/poll"
    state = {"state": "idle", "ip": ""}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as agent:
        while not done.wait(_POLL_SECONDS):
            seconds.append(timed(lambda: agent.post(url, json=state).raise_for_status()))


def _wait_until_small(folder: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while Deletion.select().exists() or _megabytes(folder) > _LOG_BYTES / 10e6:
        assert time.monotonic() < deadline, "the room was not given back"
        time.sleep(0.1)


def _megabytes(folder: Path) -> float:
    files = (folder / "mlbench.db", folder / "mlbench.db-wal")
    return sum(path.stat().st_size for path in files if path.exists()) / 1e6
