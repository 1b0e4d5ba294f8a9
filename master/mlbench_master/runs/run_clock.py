"""The clock of a run: monotonic from its start, even if the master's clock is set.

Timestamps of workers, whose clocks may be wrong, are corrected by it.
"""

import time
from functools import cache
from pathlib import Path
from typing import Any

from mlbench.contract.clock import SLACK_SECONDS, steady_seconds
from mlbench_master.database.models import Run

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def begin(ago: float = 0.0) -> dict[str, Any]:
    """Return the steady clock at the start of a run, ``ago`` seconds ago, for its row."""
    return {"boot": _boot(), "seconds": steady_seconds() - ago}


def begin_before(run: Run, at: float) -> None:
    """Move the start of a run to ``at``, the earlier start of one of its ranks, and store it.

    Its workers count from there. A run of an external job begins, and has its workers, at once.
    """
    seconds = (run.started_at or at) - at
    run.created_at = run.room_at = run.started_at = at
    if run.steady_clock:
        run.steady_clock = {**run.steady_clock, "seconds": run.steady_clock["seconds"] - seconds}
    run.save(only=[Run.created_at, Run.room_at, Run.started_at, Run.steady_clock])


def now(run: Run) -> float:
    """Return the time in Unix seconds, unaffected by clock changes since the run's start.

    After a restart of the master's machine, or on another machine, return the system time.
    """
    start = run.steady_clock
    if run.started_at is None or not start or start["boot"] != _boot():
        return time.time()
    seconds: float = run.started_at + steady_seconds() - start["seconds"]
    return seconds


def was_set_by(run: Run) -> float:
    """Return the seconds by which the master's clock was set since the run's start; 0 if few."""
    seconds = time.time() - now(run)
    return seconds if abs(seconds) > SLACK_SECONDS else 0.0


def place(dated: float, began: float, ended: float) -> float:
    """Return the timestamp of an event that happened between two times.

    A wrong timestamp counts as the end, which never improves a result.
    """
    return dated if began - SLACK_SECONDS <= dated <= ended + SLACK_SECONDS else ended


@cache
def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
