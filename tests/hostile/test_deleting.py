"""Deleting a run with a long log: polls continue, space is freed, and a kill is survived."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from falcon.testing import TestClient
from peewee import Database, SqliteDatabase

from mlbench_master.database.models import OWNED, Chunk, Deletion, Rank, Run, Stream, run_owner
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey, waiting_bytes
from mlbench_master.runs import deletion, lifecycle, worker_reports
from tests.conftest import wait_for
from tests.support.rows import line, make_ranks, make_run, record, see_pod

_LOG_BYTES = 48 << 20
_PIECE = os.urandom(512 << 10)


def make_long_log() -> Run:
    run = make_run(state="FINISHED")
    make_ranks(run)
    record(run, line(time.time(), a=1))
    for offset in range(0, _LOG_BYTES, len(_PIECE)):
        streams.append(StreamKey(run_owner(run.id), 1, 0, "stdout"), offset, _PIECE)
    return run


def is_swept() -> bool:
    return not any(table.select().exists() for table in (Deletion, Chunk, Stream))


def file_size(database: Database) -> int:
    """Return the size of SQLite's file and write-ahead log, or 0 for PostgreSQL."""
    if not isinstance(database, SqliteDatabase):
        return 0
    return sum(Path(database.database + end).stat().st_size for end in ("", "-wal"))


def poll_until(finished: Callable[[], bool], database: Database) -> float:
    """Poll like an agent until ``finished``; return the longest duration of a poll."""
    longest = 0.0
    report = worker_reports.Report(state="idle", ip="")
    with database.connection_context():  # this thread's connection
        while not finished():
            started_at = time.monotonic()
            worker_reports.poll("bystander", report)
            longest = max(longest, time.monotonic() - started_at)
            time.sleep(0.01)
    return longest


@pytest.mark.both_databases
def test_polls_are_answered_while_a_long_log_is_deleted(
    api: TestClient, database: Database
) -> None:
    run = make_long_log()
    see_pod("bystander")
    stop, finished = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        polling = pool.submit(poll_until, finished.is_set, database)
        try:
            started_at = time.monotonic()
            assert api.simulate_delete(f"/api/runs/{run.id}/").status_code == 204
            assert time.monotonic() - started_at < 2
            # Not earlier: a sweeper that finds nothing pauses for 5 s.
            sweeping = pool.submit(sweep_until, stop, database)
            assert api.simulate_get(f"/api/runs/{run.id}/").status_code == 404
            assert api.simulate_get(f"/api/runs/{run.id}/logs/").status_code == 404
            assert waiting_bytes() == 0
            wait_for(is_swept, what="all data is deleted")
            wait_for(lambda: file_size(database) < 24 << 20, what="the disk space is freed")
        finally:  # Otherwise threads of a failed test would use later databases.
            finished.set()
            stop.set()
        assert polling.result() < 2
        sweeping.result()
    for table in (Run, Rank, Chunk, Deletion, *OWNED):
        assert not table.select().exists(), table


def sweep_until(stop: threading.Event, database: Database) -> None:
    with database.connection_context():
        deletion.run(stop)


def test_a_sweep_continues_where_the_previous_one_ended(database: Database) -> None:
    lifecycle.delete(make_long_log())
    chunks = Chunk.select().count()
    assert deletion.sweep()
    assert 0 < Chunk.select().count() < chunks
    while deletion.shrink() or deletion.sweep():
        pass
    assert is_swept()
