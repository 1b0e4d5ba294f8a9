"""Lease of the database: only one of the controllers that share it works at a time."""

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
"""Try to take the lease, and return whether this process holds it. It is held until it exits."""


def open_lease(url: str) -> Lease:
    """Return the lease of the database with this URL.

    Raises:
        DatabaseURLError: the URL cannot be used.
        OSError, UnreachableDatabaseError: the database cannot be reached.
    """
    database = connect(url)
    if isinstance(database, SqliteDatabase):
        # The kernel unlocks the file when this process exits. A descriptor, because a file object
        # would close it when it is collected.
        file = os.open(f"{database.database}.lease", os.O_RDWR | os.O_CREAT, 0o600)

        def lock() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        return lock

    # The server frees the lock of a controller that is cut off after 25 s. The controller itself
    # notices that within 12 s and exits, so two never work at a time.
    keepalives = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
    try:
        connection = psycopg.connect(
            url,
            autocommit=True,
            options=keepalives,
            tcp_user_timeout=10_000,  # milliseconds
        )
    except psycopg.OperationalError as error:
        raise UnreachableDatabaseError(f"cannot reach the database: {error}") from error

    def take() -> bool:
        # Two keys: the locks of `exclusive` have one, so they never collide with this one.
        keys = (0x6D6C62, 1)
        row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", keys).fetchone()
        if row != (True,):
            return False
        threading.Thread(target=guard, name="lease", daemon=True).start()
        return True

    def guard() -> None:
        """Exit when the connection is lost, because PostgreSQL then frees the lock."""
        try:
            while True:
                connection.execute("SELECT 1")
                time.sleep(2.0)
        except psycopg.Error as error:
            log.critical("the lease is lost, another controller may work now: %s", error)
            # At once, because every action can be interrupted anywhere.
            os._exit(1)

    return take


def wait_for(lease: Lease, stopped: Callable[[float], bool]) -> bool:
    """Wait until the lease is held, and return whether it is.

    ``stopped`` waits for the given number of seconds, and returns whether to give up.
    """
    if lease():
        return True
    log.info("another controller works on this database; waiting until it has ended")
    while not stopped(0.2):
        if lease():
            log.info("the other controller has ended")
            return True
    return False
