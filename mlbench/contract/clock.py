"""Clocks that go on steadily, whoever sets the system's."""

import time

# Goes on while the machine sleeps, and nobody can set it. macOS has one clock less.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SLACK_SECONDS = 2.0
"""Clocks of well-kept machines agree better than this."""


def steady_seconds() -> float:
    """Return the seconds of a monotonic clock that also counts while the machine sleeps."""
    return time.clock_gettime(_STEADY)


class SteadyClock:
    """The system's time when it was made, which then goes on even if the system's clock is set."""

    def __init__(self) -> None:
        self._ahead = time.time() - steady_seconds()

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self._ahead + steady_seconds()
