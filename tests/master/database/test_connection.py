"""Both databases exclude, show one moment and come back alike, between threads and processes."""

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from peewee import Database, OperationalError

from mlbench_master.controller.lease import open_lease
from mlbench_master.database.connection import (
    STATE,
    DamagedDatabaseError,
    DatabaseURLError,
    Room,
    UnreachableDatabaseError,
    check_integrity,
    connect,
    exclusive,
    explain,
    find_room,
    snapshot,
)
from mlbench_master.database.models import Pod, Stream, open_database, run_owner
from mlbench_master.recording import streams
from mlbench_master.recording.streams import StreamKey
from tests.support.postgres import PostgresServer, serve
from tests.support.rows import make_run

pytestmark = pytest.mark.both_databases

# Reads, and writes what it read plus one: counts lose where two do so at once.
_COUNT_UP = """
import sys
from mlbench_master.database.connection import exclusive
from mlbench_master.database.models import Pod, open_database

database = open_database(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(50):
    with exclusive("count"):
        pod = Pod.get_by_id("counted")
        Pod.update(labels=pod.labels + 1).where(Pod.name == "counted").execute()
database.close()
"""


def make_pod(name: str, labels: object = "") -> None:
    Pod.create(name=name, phase="", ip="", node="", labels=labels)


def make_exclusively(name: str, key: str = STATE) -> None:
    with exclusive(key):
        make_pod(name)


def make_and_fail(key: str) -> None:
    with exclusive(key):
        make_pod("lost")
        raise ZeroDivisionError


@contextmanager
def another_thread(database: Database) -> Iterator[ThreadPoolExecutor]:
    """A thread with a separate connection."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool
        finally:
            pool.submit(database.close).result()


def test_processes_exclude_each_other(database: Database, database_url: str) -> None:
    make_pod("counted", 0)
    words, pipe = [sys.executable, "-c", _COUNT_UP, database_url], subprocess.PIPE
    processes = [subprocess.Popen(words, stdin=pipe, stdout=pipe) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda process: process.communicate(b"go\n"), processes))
    assert [process.returncode for process in processes] == [0, 0]
    assert Pod.get_by_id("counted").labels == 100


def test_processes_write_in_turn_and_a_turn_ends_with_its_transaction(tmp_path: Path) -> None:
    opened: Any = connect(f"sqlite:///{tmp_path}/turns.db")

    def is_free() -> bool:
        with (tmp_path / "turns.db.turns").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    with opened.turn(), opened.atomic("IMMEDIATE"):
        with opened.turn():
            pass
        assert not is_free()
    assert is_free()
    opened.close()


def test_a_thread_connects_while_another_writes(database: Database) -> None:
    make_pod("before")
    with another_thread(database) as thread, exclusive(STATE):
        assert thread.submit(Pod.select().count).result(10) == 1


def test_a_block_that_fails_leaves_nothing_and_an_inner_one_fails_alone(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        make_and_fail(STATE)
    assert not Pod.select().exists()
    with exclusive(STATE):
        make_pod("outer")
        with pytest.raises(ZeroDivisionError):
            make_and_fail("run/1")
        make_pod("after")
    assert {pod.name for pod in Pod.select()} == {"outer", "after"}


def test_polls_and_chunks_of_many_threads_end(database: Database) -> None:
    """The state first, then an owner: the order in which all take what they need."""
    run = make_run()
    keys = [StreamKey(run_owner(run.id), 1, rank, "stdout") for rank in range(2)]

    def close(rank: int) -> None:
        with database.connection_context():  # this thread's connection
            for _ in range(20):
                with exclusive(STATE):
                    streams.close(run.id, 1, rank, {})

    def append(rank: int) -> None:
        with database.connection_context():
            for offset in range(20):
                streams.append(keys[rank], offset, b".")

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, rank) for rank in (0, 1) for work in (close, append)]
        for work in working:
            work.result(60)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_snapshot_sees_one_moment(database: Database, wrapped: bool) -> None:
    make_pod("before")
    with another_thread(database) as thread, snapshot():
        assert Pod.select().count() == 1
        thread.submit(make_pod, "meanwhile").result(10)
        with snapshot() if wrapped else nullcontext():
            assert Pod.select().count() == 1
        assert Pod.select().count() == 1
    assert Pod.select().count() == 2
    with exclusive(STATE), snapshot():
        assert Pod.select().count() == 2


@pytest.mark.parametrize(
    "url",
    [
        *("", "elsewhere.db", "/elsewhere.db", "mysql://host/name", "postgresql://host"),
        *("sqlite://", "sqlite:///:memory:", "sqlite:///in-which-folder.db"),
    ],
)
def test_an_invalid_database_url(url: str) -> None:
    with pytest.raises(DatabaseURLError, match=r"sqlite:////PATH/TO/FILE or postgresql://"):
        connect(url)


def test_a_url_with_a_password_of_odd_characters() -> None:
    with pytest.raises(DatabaseURLError, match=r"In a password, write / as %2F and # as %23\.$"):
        connect("postgresql://user:p#w@host/name")
    database = connect("postgresql://us%40er:p%2Fw%25@host:99/name?sslmode=require")
    assert (database.database, database.connect_params) == (
        "name",
        {"user": "us@er", "password": "p/w%", "host": "host", "port": 99, "sslmode": "require"},
    )


def test_damage_is_found_as_far_as_there_is_time(tmp_path: Path) -> None:
    path = tmp_path / "mlbench.db"
    opened = open_database(f"sqlite:///{path}")
    Stream.create(id=1, owner="run/1", attempt=1, rank=0, name="stdout")
    opened.execute_sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
        "INSERT INTO chunk SELECT 1, i, zeroblob(2000) FROM n"
    )
    opened.close()
    began = time.monotonic()
    check_integrity(f"sqlite:///{path}", seconds=60.0)
    seconds = time.monotonic() - began
    with path.open("r+b") as file:
        file.seek(1 << 20)  # it is looked through from the end
        file.write(b"\xff" * 8192)
    check_integrity(f"sqlite:///{path}", seconds=seconds / 20)
    with pytest.raises(DamagedDatabaseError, match=rf"the database {path} is damaged \(.*age"):
        check_integrity(f"sqlite:///{path}", seconds=60.0)


def test_the_archives_beside_a_damaged_database_are_named(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "1-digits.mlbench").touch()
    (tmp_path / "mlbench.db").write_text("this is no database, and never was one")
    with pytest.raises(DamagedDatabaseError) as error:
        open_database(f"sqlite:///{tmp_path / 'mlbench.db'}")
    assert str(error.value).endswith(
        "database). Restore a backup, or import the archives of its runs into an empty one: "
        f"mv {tmp_path} {tmp_path}-damaged && mlbench up --detach && "
        f"mlbench import {tmp_path}-damaged/archive/*.mlbench"
    )


def test_an_unreachable_server_is_reported() -> None:
    for use in (open_database, open_lease):
        message = "^cannot (open|reach) the database.*: connection "
        with pytest.raises(UnreachableDatabaseError, match=message):
            use("postgresql://user@127.0.0.1:1/name")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL that tests restart."""
    with serve() as server:
        yield server


@pytest.fixture
def on_server(server: PostgresServer) -> Iterator[Database]:
    with server.new_database() as name:
        opened = open_database(server.url(name))
        yield opened
        opened.close()


def test_idle_threads_do_not_notice_a_restart(server: PostgresServer, on_server: Database) -> None:
    with another_thread(on_server) as thread:
        thread.submit(make_pod, "before").result()
        make_exclusively("before too")
        server.stop()
        for _ in range(2):
            with pytest.raises(OperationalError):
                Pod.select().count()
            with pytest.raises(OperationalError):
                make_exclusively("lost")
        server.start()
        thread.submit(make_pod, "after").result()
        make_exclusively("after too")
    assert Pod.select().count() == 4


def test_a_servers_full_disk_is_reported_and_remembered_for_a_while(
    on_server: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = 'could not extend file "base/5/1": No space left on device'
    with pytest.raises(OperationalError) as caught:
        on_server.execute_sql(f"DO $$ BEGIN RAISE '{said}' USING ERRCODE = '53100'; END $$")
    assert explain(caught.value) == "disk full: PostgreSQL's base/5/1"
    assert find_room() == Room("PostgreSQL's base/5/1", free=0, least=1)
    monkeypatch.setattr("mlbench_master.database.connection._FULL_SECONDS", 0.0)
    assert find_room() is None


def test_a_restart_ends_only_one_transaction(server: PostgresServer, on_server: Database) -> None:
    def make_around_restart() -> None:
        with exclusive(STATE):
            make_pod("lost")
            server.stop()
            server.start()
            make_pod("lost too")

    with pytest.raises(OperationalError):
        make_around_restart()
    make_exclusively("made")
    assert [pod.name for pod in Pod.select()] == ["made"]
