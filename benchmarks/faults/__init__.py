"""What goes wrong, and what is lost by it: processes killed, Prometheus hung or empty, a full disk.

``python -m benchmarks.run faults`` prints a line for each fault; ``python -m benchmarks.faults
--kills 1000 --database postgresql`` does so on one database, with more processes killed.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults import disturb
from benchmarks.faults.runs import Ledger, Outcome
from benchmarks.faults.stack import Stack, running_stack
from tests.support import postgres
from tests.support.disks import small_disk

KILLS = 100
_SEED = 16


_Disturb = Callable[[Ledger], None]


def measure(folder: Path, kills: int = KILLS) -> Iterator[str]:
    """Yield the rows: on SQLite, on PostgreSQL, and of disks that are full."""
    yield from on_sqlite(folder, kills)
    yield from on_postgresql(folder, kills)
    if os.getuid() != 0:
        print("full disks: not run, as mounting a small one needs root")
        return
    yield from _full_disks(folder)


def on_sqlite(folder: Path, kills: int) -> Iterator[str]:
    """Yield the rows of faults on SQLite."""
    with running_stack(folder / "sqlite") as stack:
        yield from _faults(stack, "SQLite", kills)


def on_postgresql(folder: Path, kills: int) -> Iterator[str]:
    """Yield the rows of faults on PostgreSQL."""
    with (
        postgres.serve() as server,
        server.new_database() as name,
        running_stack(folder / "postgresql", server.url(name)) as stack,
    ):
        yield from _faults(stack, "PostgreSQL", kills)


def _faults(stack: Stack, database: str, kills: int) -> Iterator[str]:
    print(f"random choices from seed {_SEED}", flush=True)
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    faults: dict[str, _Disturb] = {
        f"{kills} kills at random, of all processes": lambda ledger: disturb.kill_at_random(
            stack, kills, chance, ledger.keep_going
        ),
        "Prometheus hung for 20 s": lambda _: disturb.hang(stack, "Prometheus", 20),
        "Prometheus replaced by an empty one": lambda _: disturb.empty_prometheus(stack),
        "API hung for 45 s": lambda _: disturb.hang(stack, "API", 45),
        "controller hung for 45 s": lambda _: disturb.hang(stack, "controller", 45),
    }
    for fault, make in faults.items():
        yield _row(stack, fault, database, make)
    # Emptied after a run's end: then the run is read as it was, or with an error.
    ledger = Ledger(stack)
    ledger.begin_run()
    outcome = ledger.settle()
    disturb.empty_prometheus(stack)
    yield _text("Prometheus forgot a finished run", database, ledger.read_again(outcome))


def _row(stack: Stack, fault: str, database: str, make: _Disturb) -> str:
    ledger = Ledger(stack)
    ledger.begin_run()
    make(ledger)
    return _text(fault, database, ledger.settle())


def _text(fault: str, database: str, outcome: Outcome) -> str:
    return f"{fault:<44} {database:<10} {outcome}"


def _full_disks(folder: Path) -> Iterator[str]:
    root = folder / "full-prometheus"
    data = root / "home" / "prometheus" / "data"
    with small_disk(data, 96 << 20), running_stack(root) as stack:
        fault = "Prometheus's disk full for 20 s"
        yield _row(stack, fault, "SQLite", lambda _: disturb.fill(data, 20))
    root = folder / "full-master"
    disk = root / "database"
    url = f"sqlite:///{disk / 'mlbench.db'}"
    with small_disk(disk, 160 << 20), running_stack(root, url) as stack:
        fault = "master's disk full for 45 s"
        yield _row(stack, fault, "SQLite", lambda _: disturb.fill(disk, 45))
