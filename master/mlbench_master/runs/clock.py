"""The time of a run: it goes on steadily from the run's start, even if the master's clock is set.

Dates that others give, whose clocks may be wrong, are placed in it.
"""

import time
from functools import cache
from pathlib import Path
from typing import Any

from mlbench.contract.clock import SLACK_SECONDS, steady_seconds
from mlbench_master.database.models import Run

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def begin(ago: float = 0.0) -> dict[str, Any]:
    """Return what the start of a run, so many seconds ago, has to remember of the steady clock."""
    return {"boot": _boot(), "seconds": steady_seconds() - ago}


def begin_before(run: Run, at: float) -> None:
    """Have a run begin earlier, by its own time, as one of its ranks did; store that."""
    sooner = (run.started_at or at) - at
    run.started_at = at
    if run.steady_clock:
        run.steady_clock = {**run.steady_clock, "seconds": run.steady_clock["seconds"] - sooner}
    run.save(only=[Run.started_at, Run.steady_clock])


def now(run: Run) -> float:
    """Return the time in Unix seconds as if nobody had set the clock since the run's start.

    After a restart of the master's machine, or on another one, it is the system's.
    """
    begun = run.steady_clock
    if run.started_at is None or not begun or begun["boot"] != _boot():
        return time.time()
    at: float = run.started_at + steady_seconds() - begun["seconds"]
    return at


def was_set_by(run: Run) -> float:
    """Return by how many seconds the master's clock was set since the run's start; 0 if by few."""
    seconds = time.time() - now(run)
    return seconds if abs(seconds) > SLACK_SECONDS else 0.0


def place(dated: float, began: float, ended: float) -> float:
    """Return when something that happened between two times did, by its date.

    A date that is wrong counts as the end, which never flatters.
    """
    return dated if began - SLACK_SECONDS <= dated <= ended + SLACK_SECONDS else ended


@cache
def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
