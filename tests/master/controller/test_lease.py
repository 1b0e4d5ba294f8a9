"""One controller at a time: real processes, killed with -9, on both databases."""

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.postgres import PostgresServer

# Says when it holds the lease, and then does nothing.
_HOLD = """
import logging, sys, threading
from master.controller.lease import open_lease, wait_for

logging.basicConfig(level=logging.INFO)
if wait_for(open_lease(sys.argv[1]), threading.Event().wait):
    print("held", flush=True)
    sys.stdin.read()
"""


class Holder:
    """A process that wants the lease, and holds it until it ends."""

    def __init__(self, url: str) -> None:
        words, pipe = [sys.executable, "-c", _HOLD, url], subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def heard(self) -> str:
        """Return the next line that it says: once it holds the lease, or when it ends."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def says_anything(self, within_seconds: float) -> bool:
        """Return whether there is something to be heard."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], within_seconds)[0])

    def complaint(self) -> str:
        """Return the next line of its log."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().strip()


@contextmanager
def hold(url: str) -> Iterator[Holder]:
    """Have a holder as long as the block lasts."""
    holder = Holder(url)
    try:
        yield holder
    finally:
        holder.process.kill()
        holder.process.communicate()


@pytest.mark.both_databases
@pytest.mark.usefixtures("database")
def test_the_next_one_waits_until_the_first_is_killed(database_url: str) -> None:
    with hold(database_url) as first:
        assert first.heard() == "held"
        with hold(database_url) as second:
            assert "another controller works on this database" in second.complaint()
            assert not second.says_anything(within_seconds=0.5)
            first.process.kill()
            assert second.heard() == "held"
            assert "the other controller has ended" in second.complaint(), "it was said once"


def test_a_controller_that_loses_its_connection_ends(
    postgres: PostgresServer, postgres_database: str
) -> None:
    with hold(postgres.url(postgres_database)) as holder:
        assert holder.heard() == "held"
        with postgres.connect() as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            )
        assert holder.process.wait(20) == 1
        assert "the lease is lost" in holder.complaint()
