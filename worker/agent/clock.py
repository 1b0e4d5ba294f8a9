"""How far this machine's clock is from the master's, by the round trips of the agent's polls."""

from collections import deque
from dataclasses import dataclass

# The shortest of so many tells best; older ones know nothing of how the clocks drifted since.
_LAST = 8


@dataclass(frozen=True)
class Offset:
    """By how much this machine's clock is ahead of the master's, and how sure that is."""

    seconds: float
    uncertainty_seconds: float


def offset_by(sent_at: float, received_at: float, master_time: float) -> Offset:
    """Return what one round trip tells: the master read its clock somewhere in between (RFC 5905).

    All three are Unix seconds; the first two by this machine's clock.
    """
    middle = (sent_at + received_at) / 2
    return Offset(middle - master_time, abs(received_at - sent_at) / 2)


class Clock:
    """Knows the offset, by the last polls."""

    def __init__(self) -> None:
        self._last: deque[Offset] = deque(maxlen=_LAST)

    def note(self, offset: Offset) -> None:
        """Take in what another poll told."""
        self._last.append(offset)

    @property
    def offset(self) -> Offset | None:
        """The surest of the last offsets, as NTP chooses; None before the first."""
        return min(self._last, key=lambda one: one.uncertainty_seconds, default=None)
