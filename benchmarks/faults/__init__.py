"""What goes wrong, and what is lost by it: processes killed, Prometheus hung or empty, a full disk.

``python -m benchmarks.run faults`` prints a line for each fault; ``python -m benchmarks.faults
--kills 1000 --database postgresql`` does so on one database, with more processes killed.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults import disturb
from benchmarks.faults.runs import Ledger, Outcome
from benchmarks.faults.stack import Stack, running_stack
from tests import postgres

KILLS = 100
_SEED = 16


@dataclass(frozen=True)
class Row:
    """One fault, and what became of the values recorded meanwhile."""

    fault: str
    database: str
    outcome: Outcome

    def __str__(self) -> str:
        o = self.outcome
        verdict = "ok" if o.is_whole else "WRONG"
        return (
            f"{self.fault:<44} {self.database:<10} {o.runs:>3} runs {o.recorded:>7,} recorded = "
            f"{o.in_prometheus:>7,} stored + {o.kept:,} kept; {o.lost} lost, {o.doubled} doubled; "
            f"{o.seconds:.0f} s; {verdict}{''.join(f'; {note}' for note in o.notes)}"
        )


_Disturb = Callable[[Stack, Ledger], None]


def measure(folder: Path, kills: int = KILLS) -> Iterator[Row]:
    """Yield the rows: on SQLite, on PostgreSQL, and of disks that are full."""
    yield from on_sqlite(folder, kills)
    yield from on_postgresql(folder, kills)
    if os.getuid() != 0:
        print("full disks: not run, as mounting a small one needs root")
        return
    yield from _full_disks(folder)


def on_sqlite(folder: Path, kills: int) -> Iterator[Row]:
    """Yield the rows of faults on SQLite."""
    with running_stack(_made(folder / "sqlite")) as stack:
        yield from _faults(stack, "SQLite", kills)


def on_postgresql(folder: Path, kills: int) -> Iterator[Row]:
    """Yield the rows of faults on PostgreSQL."""
    with _postgres_url() as url, running_stack(_made(folder / "postgresql"), url) as stack:
        yield from _faults(stack, "PostgreSQL", kills)


def _faults(stack: Stack, database: str, kills: int) -> Iterator[Row]:
    print(f"random choices from seed {_SEED}", flush=True)
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    faults: dict[str, _Disturb] = {
        f"{kills} kills at random, of all processes": lambda s, ledger: disturb.kill_at_random(
            s, kills, chance, ledger.keep_going
        ),
        "Prometheus hung for 20 s": lambda s, _: disturb.hang(s, "Prometheus", 20),
        "Prometheus replaced by an empty one": lambda s, _: disturb.empty_prometheus(s),
        "API hung for 45 s": lambda s, _: disturb.hang(s, "API", 45),
        "controller hung for 45 s": lambda s, _: disturb.hang(s, "controller", 45),
    }
    for name, make in faults.items():
        yield _row(stack, name, database, make)
    yield _forgotten(stack, database)


def _row(stack: Stack, fault: str, database: str, make: _Disturb) -> Row:
    ledger = Ledger(stack)
    ledger.begin_run()
    make(stack, ledger)
    return Row(fault, database, ledger.settle())


def _forgotten(stack: Stack, database: str) -> Row:
    """Empty Prometheus after a run's end: then the run is read as it was, or with an error."""
    ledger = Ledger(stack)
    ledger.begin_run()
    outcome = ledger.settle()
    disturb.empty_prometheus(stack)
    return Row("Prometheus forgot a finished run", database, ledger.read_again(outcome))


def _full_disks(folder: Path) -> Iterator[Row]:
    root = _made(folder / "full-prometheus")
    data = root / "home" / "prometheus" / "data"
    with disturb.small_disk(data, "96m"), running_stack(root) as stack:
        yield _row(
            stack, "Prometheus's disk full for 20 s", "SQLite", lambda *_: disturb.fill(data, 20)
        )
    root = _made(folder / "full-master")
    disk = root / "database"
    url = f"sqlite:///{disk / 'mlbench.db'}"
    with disturb.small_disk(disk, "160m"), running_stack(root, url) as stack:
        yield _row(
            stack, "master's disk full for 45 s", "SQLite", lambda *_: disturb.fill(disk, 45)
        )


@contextmanager
def _postgres_url() -> Iterator[str]:
    with postgres.serve() as server, server.new_database() as name:
        yield server.url(name)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
