"""Connections to the database, its kinds of transactions, and tests whether it can be written.

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

from mlbench.archive.archive_format import SUFFIX
from mlbench.contract.errors import MLBenchError
from mlbench_master.database.reserve import Reserve
from mlbench_master.errors import ServiceUnavailableError

database = DatabaseProxy()

_BUSY_MS = 30_000
# PostgreSQL does not report its free space. After a failed write, its disk counts as full for this
# long, which is longer than agents wait before they ship again.
_FULL_SECONDS = 60.0
_SQLITE_PRAGMAS = {
    "busy_timeout": _BUSY_MS,
    # KiB for each of fifty threads. By default they cached the same 2 MB each, which the system
    # caches too.
    "cache_size": -500,
    "secure_delete": 0,  # do not overwrite deleted data
    "journal_size_limit": 16 << 20,
    "journal_mode": "wal",  # readers and the one writer do not wait for each other
    "synchronous": "normal",  # a killed process loses nothing
    "foreign_keys": 1,
}

# Parts of the error messages of SQLite and PostgreSQL.
_FULL = re.compile("disk is full|No space left")
_SERVERS_FILE = re.compile('file "([^"]+)"')
_DAMAGED = re.compile("not a database|malformed")

# Key of `exclusive` for the state of runs. The other keys are owners of streams and samples.
STATE = "state"

# SQLite has one writer at a time, and sleeps if the database is locked. So the threads of one
# process queue here.
_sqlite_writer = threading.RLock()


class DatabaseURLError(MLBenchError):
    """The URL of the database is invalid."""


class DamagedDatabaseError(MLBenchError):
    """SQLite's file is damaged."""


class UnreachableDatabaseError(MLBenchError):
    """The database's server does not respond, or its file cannot be opened."""


class NoRoomError(ServiceUnavailableError):
    """The database's disk is too full for logs and samples."""


class _Sqlite(SqliteDatabase):
    """SQLite with a reserve on its disk."""

    def __init__(self, database: str, *, reserve_bytes: int, **arguments: Any) -> None:
        super().__init__(database, **arguments)
        self.reserve = Reserve(Path(f"{database}.reserve"), reserve_bytes)
        self._turns: int | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process writes, by a lock that the kernel hands on immediately.

        SQLite itself would sleep up to 0.1 s at a time, and then find the database locked again.
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
        # Lets the deletion of runs shrink the file. It has an effect only on a new file; on others
        # the statement would wait for the present writer.
        if conn.execute("PRAGMA page_count").fetchone() == (0,):
            conn.execute("PRAGMA auto_vacuum = incremental")
        super()._add_conn_hooks(conn)  # type: ignore[misc]  # peewee has no public hook

    def rollback(self) -> Any:
        """Roll back, unless SQLite has done so itself, as it does on a full disk."""
        return super().rollback() if self.connection().in_transaction else None


@dataclass(frozen=True)
class Room:
    """Free space on the disk of the database."""

    path: str
    free: int
    least: int
    """Logs and samples are refused below this number of free bytes."""


class _Postgresql(PostgresqlDatabase):
    """PostgreSQL, with new connections for threads whose connection the server has closed."""

    full: tuple[float, str] = (float("-inf"), "")
    """Monotonic time at which the server last found its disk full, and the name of the disk."""

    def execute_sql(self, *arguments: Any, **options: Any) -> Any:
        """Run a statement; note if the server's disk is full."""
        try:
            return super().execute_sql(*arguments, **options)  # type: ignore[no-untyped-call]
        except PeeweeException as error:
            if place := _find_full(error):
                self.full = time.monotonic(), place
            raise

    def cursor(self, named_cursor: str | None = None) -> Any:
        """Return a cursor of the connection, or of a new one if the server has closed it."""
        if not self.is_closed() and not self.in_transaction():
            connection = self.connection()
            is_dropped = connection.closed
            if not is_dropped:
                # The server has closed an idle connection if it is readable.
                poll = select.poll()
                poll.register(connection.fileno(), select.POLLIN)
                is_dropped = bool(poll.poll(0))
            if is_dropped:
                self.close()
        return PostgresqlDatabase.cursor(self, named_cursor)


def connect(url: str, reserve_bytes: int = 0) -> Database:
    """Return the database of a URL. Each thread connects at its first query.

    ``reserve_bytes``: part of SQLite's disk that is reserved for the state of runs.

    Raises:
        DatabaseURLError: the URL names neither a file of SQLite nor a database of PostgreSQL.
    """
    scheme = url.partition(":")[0]
    try:
        arguments = parse(url, unquote_password=True, unquote_user=True)
    except ValueError:  # its message may contain a part of the password
        raise DatabaseURLError(
            "database URL: invalid host or port. In a password, write / as %2F and # as %23."
        ) from None
    # Each thread would have its own database in memory.
    is_named = arguments["database"] not in {"", ":memory:"}
    # Not a relative path, because each process may have been started in another folder.
    if scheme == "sqlite" and arguments["database"].startswith("/"):
        return _Sqlite(**arguments, pragmas=_SQLITE_PRAGMAS, reserve_bytes=reserve_bytes)
    if is_named and scheme in {"postgres", "postgresql"}:
        return _Postgresql(**arguments, prefer_psycopg3=True)
    raise DatabaseURLError(
        "database URL: must be sqlite:////PATH/TO/FILE or "
        f"postgresql://USER:PASSWORD@HOST:PORT/NAME (got a URL that begins with {scheme!r})"
    )


def database_kind() -> Literal["sqlite", "postgresql"]:
    """Return the kind of the open database."""
    return "sqlite" if isinstance(database.obj, _Sqlite) else "postgresql"


def database_size() -> int:
    """Return the size of the open database, in bytes; of SQLite without its log."""
    sql = "SELECT pg_database_size(current_database())"
    if isinstance(database.obj, _Sqlite):
        sql = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    [(size,)] = database.execute_sql(sql).fetchall()
    return int(size)


@contextmanager
def exclusive(key: str) -> Iterator[None]:
    """Run a writing transaction, while no other one with this key runs in any process."""
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
def impatient() -> Iterator[None]:
    """Run a writing transaction that waits at most 2 s for others and for the server.

    Raises:
        OperationalError: the time was too short, or the database cannot be written.
    """
    if not isinstance(database.obj, _Sqlite):
        with database.atomic():
            database.execute_sql("SET LOCAL statement_timeout = 2000")
            yield
        return
    database.obj.reserve.make_room()
    if not _sqlite_writer.acquire(timeout=2.0):
        raise OperationalError("database is locked")
    try:
        database.obj.pragma("busy_timeout", 2000)
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
    """Return the free space; None for PostgreSQL, unless its disk was full within a minute."""
    if reserve := find_reserve():
        return Room(str(reserve.path.parent), reserve.free(), reserve.size)
    full_at, place = database.obj.full
    is_full = time.monotonic() - full_at < _FULL_SECONDS
    return Room(place, free=0, least=1) if is_full else None


def find_shortage() -> str:
    """Return why SQLite's disk has too little space for logs and samples; empty if it has not."""
    reserve = find_reserve()
    return reserve.find_shortage() if reserve else ""


def check_room() -> None:
    """Raise NoRoomError if SQLite's disk has too little space for logs and samples."""
    if shortage := find_shortage():
        raise NoRoomError(f"{shortage}. Nothing was stored.")


def check_integrity(url: str, seconds: float = 2.0) -> None:
    """Check SQLite's file for damage for at most this long, which suffices for a gigabyte.

    Raises:
        DamagedDatabaseError: the file is damaged.
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
        # An interrupted check has found no damage. The first user of the file reports other errors.
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
    # The whole folder is moved, because run ids of an empty database would collide with old series.
    if any(home.glob(f"archive/*{SUFFIX}")):
        old, new = (shlex.quote(f"{folder}") for folder in (home, f"{home}-damaged"))
        steps = f"mv {old} {new} && mlbench up --detach && mlbench import {new}/archive/*{SUFFIX}"
        advice = f"import the archives of its runs into an empty one: {steps}"
    return DamagedDatabaseError(
        f"the database {opened.database} is damaged ({why}). Restore a backup, or {advice}"
    )


def explain(error: PeeweeException) -> str:
    """Return why the database failed, with the place of a full disk."""
    place = _find_full(error)
    return f"disk full: {place}" if place else str(error) or type(error).__name__


def _find_full(error: PeeweeException) -> str | None:
    """Return the place of a full disk; None for another error."""
    if not _FULL.search(str(error)):
        return None
    if reserve := find_reserve():
        return str(reserve.path.parent)
    file = _SERVERS_FILE.search(str(error))
    return f"PostgreSQL's {file[1] if file else 'disk'}"


@dataclass
class WriteTest:
    """Tests whether the database can be written, at most every 0.5 s. Threads may share it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _problem: str = ""
    _tried_at: float = float("-inf")

    def check(self) -> None:
        """Raise ServiceUnavailableError if the database cannot be written."""
        with self._lock:
            # Anybody can ask for a test, so its result is reused for a while.
            if time.monotonic() - self._tried_at > 0.5:
                self._problem = ""
                try:
                    with impatient():
                        run_sql(
                            "INSERT INTO deletion (owner, archived) VALUES (?, FALSE)", "nobody"
                        )
                        run_sql("DELETE FROM deletion WHERE owner = ?", "nobody")
                except PeeweeException as error:
                    self._problem = explain(error)
                self._tried_at = time.monotonic()
            if self._problem:
                raise ServiceUnavailableError(f"the database cannot be written: {self._problem}")


@contextmanager
def snapshot() -> Iterator[None]:
    """Run a reading transaction that sees the database as of its first query."""
    isolation = () if isinstance(database.obj, SqliteDatabase) else ("REPEATABLE READ",)
    with database.atomic(*isolation):
        yield


def run_sql(sql: str, *values: object) -> Any:
    """Run a statement with ``?`` for its values, and return the driver's cursor."""
    return database.execute_sql(sql.replace("?", database.param), values)


def run_many(sql: str, rows: Sequence[Sequence[object]]) -> None:
    """Run a statement with ``?`` for its values once for each row."""
    database.cursor().executemany(sql.replace("?", database.param), rows)


def store(row: Model, **columns: Any) -> bool:
    """Set columns of a row, and write only these; return False if the row was deleted."""
    for name, value in columns.items():
        setattr(row, name, value)
    return bool(row.save(only=[*columns]))
