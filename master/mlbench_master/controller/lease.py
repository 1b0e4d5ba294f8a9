"""The lease: of all controllers that share a database, one works at a time."""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable

import psycopg
from peewee import SqliteDatabase

from mlbench_master.database.connection import UnreachableDatabaseError, connect

log = logging.getLogger(__name__)

Lease = Callable[[], bool]
"""Try to take the lease, and return whether this process holds it, which it does until it ends."""

_RETRY_SECONDS = 0.2
# `exclusive` takes single keys, so these never meet its own.
_KEYS = (0x6D6C62, 1)
# A controller that is cut off ends before the server gives the lease to another.
_ASK_SECONDS = 2.0
_UNHEARD_MILLISECONDS = 10_000
_SERVER = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"


def open_lease(url: str) -> Lease:
    """Return the lease of the database with this URL.

    Raises:
        DatabaseURLError: the URL cannot be used.
        OSError, UnreachableDatabaseError: the database cannot be reached.
    """
    database = connect(url)
    if isinstance(database, SqliteDatabase):
        return _file_lease(f"{database.database}.lease")
    return _server_lease(url)


def wait_for(lease: Lease, stopped: Callable[[float], bool]) -> bool:
    """Wait until the lease is held; return False if told to give up.

    ``stopped`` waits for so many seconds, and returns whether to give up.
    """
    if lease():
        return True
    log.info("another controller works on this database; waiting until it has ended")
    while not stopped(_RETRY_SECONDS):
        if lease():
            log.info("the other controller has ended")
            return True
    return False


def _file_lease(path: str) -> Lease:
    """Lock a file beside SQLite's, which the kernel unlocks when this process ends."""
    # A descriptor, as a file object would close it when it is collected.
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take() -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    return take


def _server_lease(url: str) -> Lease:
    """Take an advisory lock of PostgreSQL, which it frees when the connection ends."""
    try:
        connection = psycopg.connect(
            url, autocommit=True, options=_SERVER, tcp_user_timeout=_UNHEARD_MILLISECONDS
        )
    except psycopg.OperationalError as error:
        raise UnreachableDatabaseError(f"the database cannot be reached: {error}") from error

    def take() -> bool:
        row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", _KEYS).fetchone()
        if row != (True,):
            return False
        threading.Thread(target=guard, name="lease", daemon=True).start()
        return True

    def guard() -> None:
        """End this process when the connection is lost."""
        try:
            while True:
                connection.execute("SELECT 1")
                time.sleep(_ASK_SECONDS)
        except psycopg.Error as error:
            log.critical("the lease is lost, another controller may work now: %s", error)
            # At once: every action can be interrupted anywhere.
            os._exit(1)

    return take
