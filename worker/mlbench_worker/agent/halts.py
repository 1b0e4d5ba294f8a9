"""Detect halts of a whole rank: stopped by a signal, or suspended with its machine."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from mlbench.contract.clock import steady_seconds
from mlbench.local.proc import read_proc

LOOK_SECONDS = 0.25
"""Time between two looks, which is the maximum error of a span's ends."""

Span = tuple[float, float]


class Halts:
    """Spans in which a process of a rank was stopped, or its machine was suspended.

    Args:
        now: returns the time in Unix seconds.
        asleep: returns the seconds for which the machine has been suspended since its start.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.time,
        asleep: Callable[[], float] = lambda: steady_seconds() - time.monotonic(),
    ) -> None:
        self._now, self._asleep = now, asleep
        self._slept = asleep()
        self._looked_at = now()
        self._stopped_at: float | None = None
        self._spans: list[Span] = []

    def look(self, processes: Iterable[int]) -> None:
        """Check the processes of the rank, and the machine's suspended time."""
        now, slept = self._now(), self._asleep()
        if slept - self._slept > 0.1:  # two clocks read in turn differ a little anyway
            self._spans.append((now - (slept - self._slept), now))
        between = (self._looked_at + now) / 2  # best estimate of the time of a change
        is_stopped = False
        for pid in processes:
            with suppress(OSError):  # the process has ended
                state = read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0]
                if is_stopped := state == b"T":  # by a signal; a debugger's stop is "t"
                    break
        if is_stopped and self._stopped_at is None:
            self._stopped_at = between
        elif not is_stopped and self._stopped_at is not None:
            self._spans.append((self._stopped_at, between))
            self._stopped_at = None
        self._slept, self._looked_at = slept, now

    def spans(self) -> tuple[Span, ...]:
        """Return the spans so far, in Unix seconds by this machine's clock, in order of their ends.

        The span of a process that is still stopped, or was killed while stopped, ends with the last
        look.
        """
        last = [] if self._stopped_at is None else [(self._stopped_at, self._looked_at)]
        return (*self._spans, *last)
