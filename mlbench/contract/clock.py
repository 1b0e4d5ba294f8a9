"""Clocks that advance steadily, even if the system clock is set."""

import time

# CLOCK_BOOTTIME also advances while the machine sleeps. macOS does not have it.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SLACK_SECONDS = 2.0
"""Largest offset that the clocks of well-kept machines have."""


def steady_seconds() -> float:
    """Return the seconds of a monotonic clock that also advances while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class SteadyClock:
    """A clock that starts with the system time and then advances steadily."""

    def __init__(self) -> None:
        self._offset = time.time() - steady_seconds()

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self._offset + steady_seconds()
