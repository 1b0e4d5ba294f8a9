"""How long to wait before the next try: longer each time, and never in step with others."""

import random


class Backoff:
    """Waiting times that double from ``first`` to ``longest`` seconds, with jitter."""

    def __init__(self, first: float = 0.25, longest: float = 10.0) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def seconds(self) -> float:
        """Return how long to wait now: between half and all of the current time."""
        current = self._next
        self._next = min(current * 2, self._longest)
        return current * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def reset(self) -> None:
        """Begin again with the first: the last try went well."""
        self._next = self._first
