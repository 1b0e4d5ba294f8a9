"""Measure the cost of a year of runs: the start, the lists, the database's file, memory.

A real run of two ranks is stored 10,000 times, five minutes apart, in the form that the database
has when the run is sealed: without the lines of its samples.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import psutil

from benchmarks.measure import Figure, timed
from benchmarks.stacks import local_stack, run_to_end
from tests.conftest import wait_for
from tests.support.stacks import reload, service

_RUNS = 10_000
_LISTS = 1000
_TIMES = 15
_LISTED = "/api/runs/?limit=100"
_PATHS = (
    *(_LISTED, "/api/runs/?limit=100&before=5000", "/api/runs/?limit=100&q=measured-77"),
    *("/api/runs/counts/", "/api/runs/counts/?q=digits", "/api/runs/9999/"),
)


def measure(folder: Path) -> Iterator[Figure]:
    """Yield seconds, milliseconds and megabytes with 10,000 runs."""
    with local_stack(folder) as (home, client):
        run = run_to_end(client, 2, benchmark="digits")
        wait_for(lambda: reload(client, run).archive)
    with closing(sqlite3.connect(home.database)) as database:
        _multiply(database)
    megabytes = home.database.stat().st_size / 1e6
    yield Figure(f"SQLite's file, {_RUNS:,} runs", "MB", [megabytes])
    began = time.perf_counter()
    with local_stack(folder) as (home, _):
        yield Figure("`mlbench up`, until it is ready", "s", [time.perf_counter() - began])
        connection = home.read_connection()
        [api] = service(home, "gunicorn").children()
        headers = {"Authorization": f"Bearer {connection.token}"}
        with httpx.Client(base_url=connection.url, headers=headers, timeout=60) as http:
            for path in _PATHS:
                seconds = [timed(partial(http.get, path)) for _ in range(_TIMES)]
                yield Figure(path, "ms", [1000 * duration for duration in seconds])
            before = psutil.Process(api.pid).memory_info().rss
            for _ in range(_LISTS):
                http.get(_LISTED)
            grown = psutil.Process(api.pid).memory_info().rss / before - 1
    yield Figure(f"memory of the API after {_LISTS:,} lists, more than before", "%", [100 * grown])


def _multiply(database: sqlite3.Connection) -> None:
    """Store the only run so many times, with its ranks, series and logs."""

    def columns(table: str, *left_out: str) -> list[str]:
        named = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        return [f'"{name}"' for name in named if name not in left_out]

    def copy(table: str, key: str, value: str, *left_out: str) -> None:
        names = columns(table, key, *left_out)
        database.execute(
            f"INSERT INTO {table} ({key}, {', '.join(names)}) "  # noqa: S608
            f"SELECT {value}, {', '.join(f'old.{name}' for name in names)} "
            f"FROM {table} old, run WHERE run.id > 1"
        )

    names = ", ".join(columns("run", "id"))
    for _ in range(_RUNS - 1):
        database.execute(f"INSERT INTO run ({names}) SELECT {names} FROM run WHERE id = 1")  # noqa: S608
    times = ("created_at", "started_at", "finished_at", "sealed_at")
    earlier = ", ".join(f"{name} = {name} - 300.0 * ({_RUNS} - id)" for name in times)
    database.execute(f"UPDATE run SET {earlier}, display_name = name || '-' || id")  # noqa: S608
    database.execute("UPDATE run SET blocks_deleted_at = ?", [time.time()])
    copy("rank", "run_id", "run.id", "id")
    for table in ("seriesname", "stream"):
        copy(table, "owner", "'run/' || run.id", "id")
    database.execute(
        "INSERT INTO chunk (stream_id, offset, data) SELECT new.id, chunk.offset, chunk.data "
        "FROM stream old JOIN chunk ON chunk.stream_id = old.id JOIN stream new "
        "ON (new.attempt, new.rank, new.name) = (old.attempt, old.rank, old.name) "
        "WHERE old.owner = 'run/1' AND new.owner <> 'run/1' AND old.name <> 'metrics'"
    )
    database.commit()
