"""For how long the master could be reached by its agents ("reachable seconds").

The master sends itself a heartbeat every ``EVERY_SECONDS`` (``serving/canary.py``), and each
that comes through within ``LATE_SECONDS`` counts for as many reachable seconds. The silence of
agents is measured in these, so it does not grow while the listener is blocked, the database locked,
the disk full, or the process stopped, restarting or asleep with its laptop. Nobody can set this
clock.
"""

from dataclasses import dataclass

from mlbench.contract.clock import steady_seconds
from mlbench_master.database.connection import STATE, exclusive
from mlbench_master.database.models import Hearing

EVERY_SECONDS = 2
# Agents wait longer than this for an answer.
LATE_SECONDS = 3.0
# After a pause this long, an agent heard before it may be gone.
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True)
class Reachability:
    """For how long the master could be reached."""

    seconds: int
    """Reachable seconds so far."""
    since: int
    """The same at the end of the last pause."""


def read_reachability() -> Reachability:
    """Read the reachable seconds from the database."""
    row = Hearing.select().first()
    return Reachability(row.seconds, row.since) if row else Reachability(0, 0)


class HeartbeatCounter:
    """Counts the heartbeats of one process."""

    def __init__(self) -> None:
        self._heard_at = float("-inf")

    def hear(self, sent_at: float) -> None:
        """Count a heartbeat that was sent at this time, unless it is late."""
        with exclusive(STATE):
            now = steady_seconds()
            if now - sent_at > LATE_SECONDS:
                return
            was_away = now - self._heard_at > _PAUSE_SECONDS
            now_heard = Hearing.seconds + EVERY_SECONDS
            pause = {Hearing.since: now_heard} if was_away else {}
            Hearing.insert(id=1, seconds=EVERY_SECONDS, since=EVERY_SECONDS).on_conflict(
                conflict_target=[Hearing.id], update={Hearing.seconds: now_heard, **pause}
            ).execute()
        self._heard_at = now
