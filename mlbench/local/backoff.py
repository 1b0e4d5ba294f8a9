"""Growing pauses between attempts."""

import random


class Backoff:
    """Pauses that double from ``first`` to ``longest`` seconds, with jitter."""

    def __init__(self, first: float = 0.25, longest: float = 10.0) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def seconds(self) -> float:
        """Return the seconds to wait now, and double the next pause.

        They are random between half and all of the pause, so that clients do not keep in step.
        """
        current = self._next
        self._next = min(current * 2, self._longest)
        return current * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def reset(self) -> None:
        """Start again with the first pause, after a success."""
        self._next = self._first
