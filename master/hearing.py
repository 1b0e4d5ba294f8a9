"""Hearing: for how long the master could have heard its agents, in seconds that it counts itself.

Each heartbeat that came through within ``LATE_SECONDS`` is one heard second. So silence is counted
by a clock that nobody sets, and that stands still while the listener is blocked, the database
locked, the disk full, or the process stopped, restarting or asleep with its laptop.
"""

import time
from dataclasses import dataclass

from master.database import STATE, exclusive
from master.models import Hearing

# An agent gives up on an answer later.
LATE_SECONDS = 3.0
# Who did not hear for this long does not know who is still there.
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True)
class Heard:
    """What the master's hearing says now."""

    seconds: int
    """Heard so far."""
    since: int
    """How many there were when the last pause ended."""


def heard() -> Heard:
    """Return for how long the master has heard."""
    row = Hearing.select().first()
    return Heard(row.seconds, row.since) if row else Heard(0, 0)


def clock() -> float:
    """Return seconds by a clock that goes on, and only forward, also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ear:
    """Counts the heartbeats of one process."""

    def __init__(self) -> None:
        self._heard_at = float("-inf")

    def hear(self, sent_at: float) -> None:
        """Count a heartbeat that was sent at this time, unless it comes too late."""
        with exclusive(STATE):
            now = clock()
            if now - sent_at > LATE_SECONDS:
                return
            # Those heard before a pause must be heard again before they are counted on.
            pause = {Hearing.since: Hearing.seconds + 1} if self._was_away(now) else {}
            Hearing.insert(id=1, seconds=1, since=1).on_conflict(
                conflict_target=[Hearing.id],
                update={Hearing.seconds: Hearing.seconds + 1, **pause},
            ).execute()
        self._heard_at = now

    def _was_away(self, now: float) -> bool:
        return now - self._heard_at > _PAUSE_SECONDS
