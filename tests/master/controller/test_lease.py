"""The controller's lease, with processes killed by SIGKILL, on SQLite and PostgreSQL."""

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from tests.support.postgres import PostgresServer

# Prints "held" when it has the lease. Sleeps are shortened so that it checks often.
_HOLD = """
import logging, sys, threading, time
from mlbench_master.controller.lease import open_lease, wait_for

pause = time.sleep
time.sleep = lambda seconds: pause(seconds / 20)

logging.basicConfig(level=logging.INFO)
if wait_for(open_lease(sys.argv[1]), threading.Event().wait):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def hold(url: str) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """Run a process that requests the lease; yield it with its stdout and stderr."""
    words, pipe = [sys.executable, "-c", _HOLD, url], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process, process.stdout, process.stderr
        finally:
            process.kill()


@pytest.mark.both_databases
@pytest.mark.usefixtures("database")
def test_a_second_controller_waits_until_the_first_is_killed(database_url: str) -> None:
    with hold(database_url) as (first, output, _):
        assert output.readline() == "held\n"
        with hold(database_url) as (_, next_output, next_log):
            assert "another controller works on this database" in next_log.readline()
            assert not select.select([next_output], [], [], 0.5)[0]
            first.kill()
            assert next_output.readline() == "held\n"
            # The wait is logged once.
            assert "the other controller has ended" in next_log.readline()


def test_a_lost_connection_ends_a_controller(
    postgres: PostgresServer, postgres_database: str
) -> None:
    with hold(postgres.url(postgres_database)) as (process, output, log):
        assert output.readline() == "held\n"
        with postgres.connect() as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            )
        assert process.wait(20) == 1
        assert "the lease is lost" in log.readline()
