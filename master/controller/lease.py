"""The lease: of all controllers that share a database, one works; a killed one holds it no more."""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

import psycopg
from peewee import SqliteDatabase

from master.database import connect

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2
# `exclusive` takes single keys, which never meet these.
_KEYS = (0x6D6C62, 1)
# A controller that is cut off ends before the server gives the lease to another.
_ASK_SECONDS = 2.0
_UNHEARD_MILLISECONDS = 10_000
_SERVER = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"


class Lease(Protocol):
    """What one process holds at a time, until it ends."""

    def take(self) -> bool:
        """Return whether it is held now."""


class FileLease:
    """A lock on a file beside SQLite's, which the kernel frees when its holder ends."""

    def __init__(self, database: str) -> None:
        """Prepare to lock the file beside this one."""
        # No file object, which would let go of it once nobody holds that.
        self._file = os.open(f"{database}.lease", os.O_RDWR | os.O_CREAT, 0o600)

    def take(self) -> bool:
        """Return whether it is held now."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class ServerLease:
    """An advisory lock of PostgreSQL, which the server frees when its connection ends."""

    def __init__(self, url: str) -> None:
        """Connect, for this alone."""
        self._connection = psycopg.connect(
            url, autocommit=True, options=_SERVER, tcp_user_timeout=_UNHEARD_MILLISECONDS
        )

    def take(self) -> bool:
        """Return whether it is held now; once it is, the process ends when it is lost."""
        found = self._connection.execute("SELECT pg_try_advisory_lock(%s, %s)", _KEYS).fetchone()
        if found != (True,):
            return False
        threading.Thread(target=self._guard, name="lease", daemon=True).start()
        return True

    def _guard(self) -> None:
        try:
            while True:
                self._connection.execute("SELECT 1")
                time.sleep(_ASK_SECONDS)
        except psycopg.Error as error:
            log.critical("the lease is lost, another controller may work now: %s", error)
            # At once: what is under way can be killed at any instruction.
            os._exit(1)


def open_lease(url: str) -> Lease:
    """Return the lease of those that share the database of this URL.

    Raises:
        DatabaseURLError: it is none that can be used.
        OSError, psycopg.Error: it cannot be reached.
    """
    database = connect(url)
    return (
        FileLease(database.database) if isinstance(database, SqliteDatabase) else ServerLease(url)
    )


def wait_for(lease: Lease, stopped: Callable[[float], bool]) -> bool:
    """Wait until the lease is held, and return whether it is.

    Args:
        lease: what to wait for.
        stopped: waits for so many seconds, and returns whether to give up.
    """
    if lease.take():
        return True
    log.info("another controller works on this database; waiting until it has ended")
    while not stopped(_RETRY_SECONDS):
        if lease.take():
            log.info("the other controller has ended")
            return True
    return False
