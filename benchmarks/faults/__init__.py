"""Measure losses by faults: killed processes, a hung or empty Prometheus, a full disk.

``KILLS=1000 python -m benchmarks.run faults`` kills more processes than the default.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

from benchmarks.faults import disturb
from benchmarks.faults.runs import Ledger
from benchmarks.stacks import local_stack
from mlbench.contract import names
from mlbench.local.home import Home
from tests.support import postgres
from tests.support.disks import small_disk

_KILLS = int(os.environ.get("KILLS", "100"))


def measure(folder: Path) -> Iterator[str]:
    """Yield the rows: on SQLite, on PostgreSQL, and of disks that are full."""
    with local_stack(folder / "sqlite") as (home, _):
        yield from _faults(home, "SQLite")
    with (
        postgres.serve() as server,
        server.new_database() as name,
        patch.dict(os.environ, {names.ENV_DATABASE_URL: server.url(name)}),
        local_stack(folder / "postgresql") as (home, _),
    ):
        yield from _faults(home, "PostgreSQL")
    if os.getuid() != 0:
        print("full disks: not run, as mounting a small one needs root")
        return
    prometheus, database = folder / "full" / "home" / "prometheus" / "data", folder / "database"
    with small_disk(prometheus, 96 << 20), local_stack(folder / "full") as (home, _):
        fault = "Prometheus's disk full for 20 s"
        yield _row(home, fault, "SQLite", lambda _: disturb.fill(prometheus, 20))
    url = {names.ENV_DATABASE_URL: f"sqlite:///{database / 'mlbench.db'}"}
    with (
        small_disk(database, 160 << 20),
        patch.dict(os.environ, url),
        local_stack(folder / "beside") as (home, _),
    ):
        fault = "master's disk full for 45 s"
        yield _row(home, fault, "SQLite", lambda _: disturb.fill(database, 45))


def _faults(home: Home, database: str) -> Iterator[str]:
    def forget(ledger: Ledger) -> None:
        """Empty Prometheus after a run's end."""
        ledger.wait_until_sealed()
        disturb.empty_prometheus(home)

    faults: dict[str, Callable[[Ledger], None]] = {
        f"{_KILLS} kills at random, of all processes": lambda ledger: disturb.kill_at_random(
            home, _KILLS, ledger.keep_going
        ),
        "Prometheus hung for 20 s": lambda _: disturb.hang(home, "Prometheus", 20),
        "Prometheus replaced by an empty one": lambda _: disturb.empty_prometheus(home),
        "API hung for 45 s": lambda _: disturb.hang(home, "API", 45),
        "controller hung for 45 s": lambda _: disturb.hang(home, "controller", 45),
        "Prometheus forgot a finished run": forget,
    }
    for fault, make in faults.items():
        yield _row(home, fault, database, make)


def _row(home: Home, fault: str, database: str, make: Callable[[Ledger], None]) -> str:
    ledger = Ledger(home)
    ledger.begin_run()
    make(ledger)
    return f"{fault:<44} {database:<10} {ledger.settle()}"
