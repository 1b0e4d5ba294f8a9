"""A full or read-only disk of the database: polling, stopping and deleting still work."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from benchmarks import servers
from benchmarks.servers import database_url, running_api, running_master
from mlbench_master.database.models import open_database, run_owner
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey
from tests.conftest import PrometheusServer, wait_for
from tests.support.disks import fill, free, small_disk
from tests.support.rows import make_ranks, make_run

pytestmark = pytest.mark.slow

_DISK_BYTES = 48 << 20
_RESERVE_BYTES = 4 << 20
_LOG_BYTES = 16 << 20
_AGENT = {"Authorization": f"Bearer {servers.agent_token('w-0')}"}
_USER = {"Authorization": f"Bearer {servers.TOKEN}"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", _DISK_BYTES) as folder:
        yield folder


@pytest.fixture
def runs(disk: Path) -> Mapping[str, int]:
    """Ids of an active run and of an ended run with a long log."""
    opened = open_database(database_url(disk))
    active, ended = make_run(num_workers=1), make_run(state="FINISHED")
    make_ranks(active, ("w-0",))
    piece = os.urandom(1 << 20)
    for offset in range(0, _LOG_BYTES, len(piece)):
        streams.append(StreamKey(run_owner(ended.id), 1, 0, "stdout"), offset, piece)
    servers.know_pods(disk, ["w-0"])
    ids = {"active": active.id, "ended": ended.id}
    opened.close()
    return ids


def client(port: int, headers: Mapping[str, str]) -> httpx.Client:
    url = f"http://127.0.0.1:{port}"
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30)


def ship(agent: httpx.Client, run_id: int, stream: str) -> httpx.Response:
    path = f"/api/runs/{run_id}/ranks/0/{stream}?attempt=1&offset=0"
    return agent.put(path, content=b"a line\n")


def poll(agent: httpx.Client, run_id: int) -> httpx.Response:
    report = {"state": "running", "ip": "", "run_id": run_id, "attempt": 1, "rank": 0}
    return agent.post("/api/workers/w-0/poll", json=report)


def test_runs_can_be_stopped_and_deleted_on_a_full_disk(
    disk: Path,
    runs: Mapping[str, int],
    shared_prometheus: PrometheusServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLBENCH_RESERVE_BYTES", str(_RESERVE_BYTES))
    active, ended = runs["active"], runs["ended"]
    with (
        running_master(disk, shared_prometheus.url) as master,
        client(master.port, _AGENT) as agent,
        client(master.port, _USER) as user,
        # A transaction that reads keeps SQLite's write-ahead log from being reset.
        closing(sqlite3.connect(disk / "mlbench.db")) as reader,
    ):
        assert poll(agent, active).status_code == 200
        reserve = disk / "mlbench.db.reserve"
        assert reserve.stat().st_size == _RESERVE_BYTES
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM run").fetchall()
        filler = fill(disk)
        wait_for(
            lambda: poll(agent, active).status_code == 200, 5, "the master notices the full disk"
        )
        for _ in range(20):
            assert poll(agent, active).status_code == 200
        assert not reserve.exists()
        for stream in ("stdout", "metrics"):
            answer = ship(agent, active, stream)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert f"free in {disk}" in answer.json()["message"]
        shortage = user.get(f"/api/runs/{active}/").json()["waiting"]
        assert f" MB free in {disk}, 4 MB required for logs" in shortage
        refused = user.post("/api/runs/", json={"name": "next", "queue": True})
        assert refused.status_code == 503
        assert f" MB free in {disk}, 4 MB required for logs" in refused.json()["message"]
        assert user.get("/readyz").status_code == 200
        assert user.post(f"/api/runs/{active}/stop/").json()["stop_requested"] is True
        reader.rollback()
        assert user.delete(f"/api/runs/{ended}/").status_code == 204
        assert user.get(f"/api/runs/{ended}/").status_code == 404
        wait_for(lambda: free(disk) > _LOG_BYTES // 2, seconds=60, what="the disk space is freed")
        filler.unlink()
        assert poll(agent, active).status_code == 200
        assert reserve.stat().st_size == _RESERVE_BYTES
        assert ship(agent, active, "stdout").json()["offset"] == 7
        assert user.get(f"/api/runs/{active}/").json()["waiting"] == ""
        assert user.post("/api/runs/", json={"name": "next", "queue": True}).is_success


def test_readiness_explains_a_database_that_cannot_be_written(
    disk: Path,
    runs: Mapping[str, int],
    shared_prometheus: PrometheusServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLBENCH_RESERVE_BYTES", "0")
    with (
        running_api(disk, shared_prometheus.url) as master,
        client(master.port, _AGENT) as agent,
        closing(sqlite3.connect(disk / "mlbench.db")) as reader,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM run").fetchall()
        filler = fill(disk)
        wait_for(lambda: poll(agent, runs["active"]).status_code == 503, what="polls fail")
        wait_for(lambda: agent.get("/readyz").status_code == 503, what="it is not ready")
        message = agent.get("/readyz").json()["message"]
        assert message == f"the database cannot be written: disk full: {disk}"
        assert agent.get("/healthz").status_code == 200
        filler.unlink()
        wait_for(lambda: agent.get("/readyz").status_code == 200, what="it is ready")
        assert poll(agent, runs["active"]).status_code == 200
        reader.rollback()
        reader.execute("BEGIN IMMEDIATE")
        wait_for(lambda: agent.get("/readyz").status_code == 503, what="it is not ready")
        message = agent.get("/readyz").json()["message"]
        assert message == "the database cannot be written: database is locked"
        reader.rollback()
        wait_for(lambda: agent.get("/readyz").status_code == 200, what="it is ready")
