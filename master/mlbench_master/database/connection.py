"""The database: connecting to it, the kinds of transaction, and whether it can be written.

SQLite in WAL mode by default, or PostgreSQL by its URL. Both behave alike: transactions of
``exclusive`` with one key run one after the other, and ``snapshot`` sees one moment.
"""

import fcntl
import os
import re
import select
import shlex
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from peewee import (
    Database,
    DatabaseError,
    DatabaseProxy,
    Model,
    OperationalError,
    PeeweeException,
    PostgresqlDatabase,
    SqliteDatabase,
)
from playhouse.db_url import parse

from mlbench.archive.format import SUFFIX
from mlbench.contract.errors import MLBenchError
from mlbench_master.database.reserve import Reserve
from mlbench_master.errors import ServiceUnavailableError

database = DatabaseProxy()

_BUSY_MS = 30_000
# A write of `WriteTest` that takes longer counts as failed. Anybody may ask for one, so its result
# is used again for a while.
_TEST_SECONDS = 2.0
_TEST_VALID_SECONDS = 0.5
# A gigabyte is checked within it.
_CHECK_SECONDS = 2.0
# PostgreSQL does not tell how much is free: after a write for which there was no room, its disk
# counts as full for as long as agents wait at most before they ship again, and longer.
_FULL_SECONDS = 60.0
_SQLITE_PRAGMAS = {
    "busy_timeout": _BUSY_MS,
    "secure_delete": 0,  # do not overwrite what is deleted
    "journal_size_limit": 16 << 20,
    "journal_mode": "wal",  # readers and the one writer do not wait for each other
    "synchronous": "normal",  # a killed process loses nothing
    "foreign_keys": 1,
}

# What SQLite and PostgreSQL say.
_FULL = re.compile("disk is full|No space left")
_SERVERS_FILE = re.compile('file "([^"]+)"')
_DAMAGED = re.compile("not a database|malformed")

# A key of `exclusive`: the state of runs. The others are owners of streams and samples.
STATE = "state"

# SQLite has one writer at a time. A thread that finds the database locked would sleep, so threads
# of one process queue here instead.
_sqlite_writer = threading.RLock()


class DatabaseURLError(MLBenchError):
    """The URL of the database cannot be used."""


class DamagedDatabaseError(MLBenchError):
    """SQLite's file is damaged."""


class UnreachableDatabaseError(MLBenchError):
    """The database's server gives no answer, or its file cannot be opened."""


class _Sqlite(SqliteDatabase):
    """SQLite with a reserve on its disk."""

    def __init__(self, database: str, *, reserve_bytes: int, **arguments: Any) -> None:
        super().__init__(database, **arguments)
        self.reserve = Reserve(Path(f"{database}.reserve"), reserve_bytes)
        self._turns: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process writes, by a lock that the kernel hands on at once.

        SQLite itself would sleep, up to 0.1 s at a time, and find the database locked anew.
        """
        if self.in_transaction():
            yield
            return
        if self._turns is None:
            self._turns = os.open(f"{self.database}.turns", os.O_RDWR | os.O_CREAT, 0o600)
            weakref.finalize(self, os.close, self._turns)
        fcntl.flock(self._turns, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._turns, fcntl.LOCK_UN)

    def _add_conn_hooks(self, conn: sqlite3.Connection) -> None:
        # Only a new file takes it, so that `sweeping` can shrink the file later; over one with
        # pages the statement changes nothing, but waits for whoever writes.
        if conn.execute("PRAGMA page_count").fetchone() == (0,):
            conn.execute("PRAGMA auto_vacuum = incremental")
        super()._add_conn_hooks(conn)  # type: ignore[misc]  # peewee has no public one

    def rollback(self) -> Any:
        """Roll back, unless SQLite has done so itself, as it does on a full disk."""
        return super().rollback() if self.connection().in_transaction else None


@dataclass(frozen=True)
class Room:
    """What is free on the disk of the database, as far as it is known."""

    path: str
    free: int
    least: int
    """Below so many bytes, no logs and samples are taken."""


class _Postgresql(PostgresqlDatabase):
    """PostgreSQL, to which each thread connects again after the server closed its connection."""

    full: tuple[float, str] = (float("-inf"), "")
    """When the server last found its disk full, and where."""

    def execute_sql(self, *arguments: Any, **options: Any) -> Any:
        """Run a statement, and remember if the server's disk is full."""
        try:
            return super().execute_sql(*arguments, **options)  # type: ignore[no-untyped-call]
        except PeeweeException as error:
            if place := _find_full(error):
                self.full = time.monotonic(), place
            raise

    def cursor(self, named_cursor: str | None = None) -> Any:
        """Return a cursor, of a new connection if the server has closed the old one."""
        if not self.is_closed() and not self.in_transaction() and _is_dropped(self.connection()):
            self.close()
        return PostgresqlDatabase.cursor(self, named_cursor)


def connect(url: str, reserve_bytes: int = 0) -> Database:
    """Return the database of a URL. Each thread connects at its first query.

    ``reserve_bytes`` of SQLite's disk are kept for the state of runs.

    Raises:
        DatabaseURLError: it names neither a file of SQLite nor a database of PostgreSQL.
    """
    scheme = url.partition(":")[0]
    try:
        arguments = parse(url, unquote_password=True, unquote_user=True)
    except ValueError:  # its text may have a part of the password
        raise DatabaseURLError(
            "the database's URL has a wrong host or port: in a password, / is %2F and # is %23"
        ) from None
    # In memory, each thread would have a database of its own.
    named = arguments["database"] not in {"", ":memory:"}
    # Each process may have been started in another folder.
    if scheme == "sqlite" and arguments["database"].startswith("/"):
        return _Sqlite(**arguments, pragmas=_SQLITE_PRAGMAS, reserve_bytes=reserve_bytes)
    if named and scheme in {"postgres", "postgresql"}:
        return _Postgresql(**arguments, prefer_psycopg3=True)
    raise DatabaseURLError(
        f"the database's URL begins with {scheme!r}; it is sqlite:////PATH/TO/FILE or "
        "postgresql://USER:PASSWORD@HOST:PORT/NAME"
    )


def database_kind() -> Literal["sqlite", "postgresql"]:
    """Return what kind the open database is of."""
    return "sqlite" if isinstance(database.obj, _Sqlite) else "postgresql"


@contextmanager
def exclusive(key: str) -> Iterator[None]:
    """Run a writing transaction; no other with this key runs meanwhile, in any process."""
    if isinstance(database.obj, _Sqlite):
        if key == STATE:
            database.obj.reserve.make_room()
        with _sqlite_writer, database.obj.turn(), database.atomic("IMMEDIATE"):
            yield
    else:
        with database.atomic():
            database.execute_sql("SELECT pg_advisory_xact_lock(hashtext(%s))", (key,))
            yield


@contextmanager
def impatient(seconds: float) -> Iterator[None]:
    """Run a writing transaction that waits this long at most, for others and for the server.

    Raises:
        OperationalError: that was not enough, or the database cannot be written.
    """
    milliseconds = int(seconds * 1000)
    if not isinstance(database.obj, _Sqlite):
        with database.atomic():
            database.execute_sql(f"SET LOCAL statement_timeout = {milliseconds}")
            yield
        return
    database.obj.reserve.make_room()
    if not _sqlite_writer.acquire(timeout=seconds):
        raise OperationalError("database is locked")
    try:
        database.obj.pragma("busy_timeout", milliseconds)
        try:
            with database.atomic("IMMEDIATE"):
                yield
        finally:
            database.obj.pragma("busy_timeout", _BUSY_MS)
    finally:
        _sqlite_writer.release()


def find_reserve() -> Reserve | None:
    """Return the reserve on SQLite's disk; None for PostgreSQL."""
    return database.obj.reserve if isinstance(database.obj, _Sqlite) else None


def find_room() -> Room | None:
    """Return how much room there is; None for PostgreSQL, unless its disk was full just now."""
    if reserve := find_reserve():
        return Room(str(reserve.path.parent), reserve.free(), reserve.size)
    full_at, place = database.obj.full
    was_just_now = time.monotonic() - full_at < _FULL_SECONDS
    return Room(place, free=0, least=1) if was_just_now else None


def check_room() -> None:
    """Raise NoRoomError if SQLite's disk has too little room for logs and samples."""
    if reserve := find_reserve():
        reserve.check_room()


def check_integrity(url: str, seconds: float = _CHECK_SECONDS) -> None:
    """Look through SQLite's file for damage, for so long at most.

    Raises:
        DamagedDatabaseError: there is some.
    """
    opened = connect(url)
    if not isinstance(opened, _Sqlite):
        return
    try:
        timer = threading.Timer(seconds, opened.connection().interrupt)
        timer.start()
        try:
            [(verdict,)] = opened.execute_sql("PRAGMA quick_check(1)").fetchall()
        finally:
            timer.cancel()
            opened.close()
    except DatabaseError as error:
        # One that is interrupted has found no damage so far; others are for who needs the file.
        raise_if_damaged(opened, error)
    else:
        if verdict != "ok":
            raise _damaged(opened, verdict.splitlines()[-1])


def raise_if_damaged(opened: Database, error: PeeweeException) -> None:
    """Raise DamagedDatabaseError if an error means that SQLite's file is damaged."""
    if isinstance(opened, _Sqlite) and _DAMAGED.search(str(error)):
        raise _damaged(opened, str(error)) from None


def _damaged(opened: Database, why: str) -> DamagedDatabaseError:
    home = Path(opened.database).parent
    advice = f"move {home} away, which starts an empty one"
    # Run ids of an empty database would meet the old series, so that all of the folder is moved.
    if any(home.glob(f"archive/*{SUFFIX}")):
        old, new = (shlex.quote(f"{folder}") for folder in (home, f"{home}-damaged"))
        steps = f"mv {old} {new} && mlbench up --detach && mlbench import {new}/archive/*{SUFFIX}"
        advice = f"import the archives of its runs into an empty one: {steps}"
    return DamagedDatabaseError(
        f"the database {opened.database} is damaged ({why}): put a backup in its place, or {advice}"
    )


def explain(error: PeeweeException) -> str:
    """Say why the database failed; of a full disk, where it is."""
    place = _find_full(error)
    return f"disk full: {place}" if place else str(error) or type(error).__name__


def _find_full(error: PeeweeException) -> str | None:
    """Return which disk is full; None for an error of another kind."""
    if not _FULL.search(str(error)):
        return None
    if reserve := find_reserve():
        return str(reserve.path.parent)
    file = _SERVERS_FILE.search(str(error))
    return f"PostgreSQL's {file[1] if file else 'disk'}"


@dataclass
class WriteTest:
    """Tests whether the database can be written, not too often. Threads may share it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _problem: str = ""
    _tried_at: float = float("-inf")

    def check(self) -> None:
        """Raise ServiceUnavailableError if the database cannot be written."""
        with self._lock:
            if time.monotonic() - self._tried_at > _TEST_VALID_SECONDS:
                self._problem = _try_to_write()
                self._tried_at = time.monotonic()
            if self._problem:
                raise ServiceUnavailableError(f"the database cannot be written: {self._problem}")


def _try_to_write() -> str:
    """Write a row and delete it in one transaction; return what went wrong, empty if nothing."""
    try:
        with impatient(_TEST_SECONDS):
            run_sql("INSERT INTO deletion (owner, archived) VALUES (?, FALSE)", "nobody")
            run_sql("DELETE FROM deletion WHERE owner = ?", "nobody")
    except PeeweeException as error:
        return explain(error)
    return ""


@contextmanager
def snapshot() -> Iterator[None]:
    """Run a reading transaction that sees the database as of its first query."""
    isolation = () if isinstance(database.obj, SqliteDatabase) else ("REPEATABLE READ",)
    with database.atomic(*isolation):
        yield


def run_sql(sql: str, *values: object) -> Any:
    """Run a statement that has ``?`` for its values, and return the driver's cursor."""
    return database.execute_sql(sql.replace("?", database.param), values)


def run_many(sql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a statement that has ``?`` for its values once for each row."""
    database.cursor().executemany(sql.replace("?", database.param), rows)


def store(row: Model, **columns: Any) -> bool:
    """Set some columns of a row, and write them alone; return False if it was deleted meanwhile."""
    for name, value in columns.items():
        setattr(row, name, value)
    return bool(row.save(only=[*columns]))


def _is_dropped(connection: Any) -> bool:
    """Check if the server has closed an idle connection, which makes it readable."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
