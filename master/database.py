"""The database: connecting to it, and the kinds of transaction that the master uses.

SQLite in WAL mode by default, PostgreSQL by its URL. Both behave alike here: what runs inside
``exclusive`` for one key happens one after the other, and ``snapshot`` sees one moment.
"""

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peewee import (
    Database,
    DatabaseProxy,
    OperationalError,
    PostgresqlDatabase,
    SqliteDatabase,
)
from playhouse.db_url import parse

from master.reserve import Reserve
from mlbench.errors import MLBenchError

database = DatabaseProxy()

_BUSY_MS = 30_000
_SQLITE_PRAGMAS = {
    "busy_timeout": _BUSY_MS,
    "auto_vacuum": "incremental",  # of a new file: the others are told by `sweeping`
    "secure_delete": 0,  # or what is deleted is written once more, as zeros
    "journal_size_limit": 16 << 20,
    "journal_mode": "wal",  # readers and the one writer do not wait for each other
    "synchronous": "normal",  # a killed process loses nothing
    "foreign_keys": 1,
}

# The keys of `exclusive`: the runs' state, or one owner's streams and samples.
STATE = "state"

# SQLite has one writer at a time. A thread that finds the database locked sleeps for a while, so
# threads of one process queue here instead.
_sqlite_writer = threading.RLock()


class DatabaseURLError(MLBenchError):
    """The URL of the database is none that the master can use."""


class _Sqlite(SqliteDatabase):
    """SQLite, with a reserve on its disk."""

    def __init__(self, database: str, *, reserve_bytes: int, **arguments: Any) -> None:
        super().__init__(database, **arguments)
        self.reserve = Reserve.beside(database, reserve_bytes)

    def rollback(self) -> Any:
        """Roll back, unless SQLite has: on a full disk it does, and the error is to be that."""
        return super().rollback() if self.connection().in_transaction else None


class _Postgresql(PostgresqlDatabase):
    """PostgreSQL, to which each thread connects again after the server has dropped it."""

    def cursor(self, named_cursor: str | None = None) -> Any:
        """Return a cursor of a connection that works, unless it breaks in a transaction."""
        if not self.is_closed() and not self.in_transaction() and _is_dropped(self.connection()):
            self.close()
        return PostgresqlDatabase.cursor(self, named_cursor)


def connect(url: str, reserve_bytes: int = 0) -> Database:
    """Return the database of a URL, to which each thread connects at its first query.

    ``reserve_bytes`` on SQLite's disk are set aside for writing the state of runs.

    Raises:
        DatabaseURLError: it names neither a file of SQLite nor a database of PostgreSQL.
    """
    scheme = url.partition(":")[0]
    arguments = parse(url, unquote_password=True, unquote_user=True)
    # In memory, each thread would have a database of its own.
    named = arguments["database"] not in {"", ":memory:"}
    if named and scheme == "sqlite":
        return _Sqlite(**arguments, pragmas=_SQLITE_PRAGMAS, reserve_bytes=reserve_bytes)
    if named and scheme in {"postgres", "postgresql"}:
        return _Postgresql(**arguments, prefer_psycopg3=True)
    raise DatabaseURLError(
        f"the database's URL begins with {scheme!r}; it is sqlite:////PATH/TO/FILE or "
        "postgresql://USER:PASSWORD@HOST:PORT/NAME"
    )


@contextmanager
def exclusive(key: str) -> Iterator[None]:
    """Run a writing transaction, alone among those of the same key, in any process."""
    if isinstance(database.obj, _Sqlite):
        if key == STATE:
            database.obj.reserve.make_room()
        with _sqlite_writer, database.atomic("IMMEDIATE"):
            yield
    else:
        with database.atomic():
            database.execute_sql("SELECT pg_advisory_xact_lock(hashtext(%s))", (key,))
            yield


@contextmanager
def impatient(seconds: float) -> Iterator[None]:
    """Run a writing transaction that waits for others, and for the server, so long at most.

    Raises:
        OperationalError: it had to wait longer, or the database cannot be written.
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


def check_room() -> None:
    """Make sure that the disk has room for logs and samples, as far as that can be known.

    Raises:
        NoRoomError: it is too full.
    """
    if isinstance(database.obj, _Sqlite):
        database.obj.reserve.check_room()


@contextmanager
def snapshot() -> Iterator[None]:
    """Run a reading transaction that sees the database as it is at its first query."""
    isolation = () if isinstance(database.obj, SqliteDatabase) else ("REPEATABLE READ",)
    with database.atomic(*isolation):
        yield


def run_sql(sql: str, *values: object) -> Any:
    """Run a statement with ``?`` for its values, and return the driver's cursor."""
    return database.execute_sql(sql.replace("?", database.param), values)


def _is_dropped(connection: Any) -> bool:
    """Return whether the server has ended a connection on which nothing is under way.

    It says so when it ends; nothing else makes such a connection readable.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def connect_tables(opened: Database) -> None:
    """Let all tables use this database from now on."""
    database.initialize(opened)
