"""The time for which agents could reach the master ("reachable seconds").

The master sends itself a heartbeat every ``EVERY_SECONDS`` (``serving/canary.py``). Each heartbeat
that arrives within ``LATE_SECONDS`` adds ``EVERY_SECONDS`` reachable seconds. The silence of agents
is measured in reachable seconds. Therefore it does not grow while the listener is blocked, the
database locked, the disk full, or the process stopped, restarting or asleep with its laptop.
"""

from dataclasses import dataclass

from mlbench.contract.clock import steady_seconds
from mlbench_master.database.connection import STATE, exclusive
from mlbench_master.database.models import MasterUptime

EVERY_SECONDS = 2
# Agents wait longer than this for a response.
LATE_SECONDS = 3.0


@dataclass(frozen=True)
class Reachability:
    """The time for which agents could reach the master."""

    seconds: int
    """Reachable seconds so far."""
    since: int
    """Reachable seconds at the end of the last pause. Agents heard before may be gone."""


def read_reachability() -> Reachability:
    """Read the reachable seconds from the database."""
    row = MasterUptime.select().first()
    return Reachability(row.seconds, row.since) if row else Reachability(0, 0)


class HeartbeatCounter:
    """Counts the heartbeats of a process."""

    def __init__(self) -> None:
        self._heard_at = float("-inf")

    def hear(self, sent_at: float) -> None:
        """Count a heartbeat that was sent at ``sent_at``, unless it is late."""
        with exclusive(STATE):
            now = steady_seconds()
            if now - sent_at > LATE_SECONDS:
                return
            was_away = now - self._heard_at > 5.0
            now_heard = MasterUptime.seconds + EVERY_SECONDS
            pause = {MasterUptime.since: now_heard} if was_away else {}
            MasterUptime.insert(id=1, seconds=EVERY_SECONDS, since=EVERY_SECONDS).on_conflict(
                conflict_target=[MasterUptime.id], update={MasterUptime.seconds: now_heard, **pause}
            ).execute()
        self._heard_at = now
