"""How long a client may keep the master waiting: for its request, or to take its answer."""

from dataclasses import dataclass

# Without a byte moved.
STALL_SECONDS = 10.0
# On average, of the time in which the master waits for the client.
LEAST_BYTES_PER_SECOND = 16 << 10


@dataclass
class Pace:
    """One direction of one request. A client that goes on, however long it takes, is in pace."""

    waited: float = 0.0
    moved: int = 0

    def note(self, moved: int, waited: float = 0.0) -> None:
        """Count bytes that have moved, and seconds that were waited for them."""
        self.moved += moved
        self.waited += waited

    @property
    def patience(self) -> float:
        """How many seconds the next byte may take; none are left where this is not above 0."""
        allowed = STALL_SECONDS + self.moved / LEAST_BYTES_PER_SECOND
        return min(STALL_SECONDS, allowed - self.waited)
