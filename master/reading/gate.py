"""The gate before Prometheus: how many may ask at once, and none for a while when it is silent."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from master.errors import UnavailableError


class PrometheusError(UnavailableError):
    """Prometheus gave no answer to a query."""


# Questions that may be under way; more wait so long for one of them to end.
_AT_ONCE = 8
_QUEUE_SECONDS = 1.0
# After so many in a row without an answer, nobody asks for a while; then one does.
_FAILURES = 3
_REST_SECONDS = 5.0


class SilentError(PrometheusError):
    """Prometheus cannot be reached, or does not answer in time."""


class Gate:
    """Lets threads ask Prometheus, as long as it answers."""

    def __init__(
        self, rest_seconds: float = _REST_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Let nobody ask for ``rest_seconds`` once Prometheus is silent."""
        self._rest_seconds = rest_seconds
        self._clock = clock
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until = float("-inf")

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Let the block ask, and note whether it raises ``SilentError``.

        Raises:
            PrometheusError: nobody may ask now, or too many do.
        """
        self._check()
        if not self._places.acquire(timeout=_QUEUE_SECONDS):
            raise PrometheusError(
                f"{_AT_ONCE} questions to Prometheus are under way already: try again later"
            )
        try:
            self._enter()
            yield
        except SilentError:
            self._note_silence()
            raise
        else:
            self._failures, self._closed_until = 0, float("-inf")
        finally:
            self._places.release()

    def _check(self) -> None:
        seconds = self._closed_until - self._clock()
        if seconds > 0:
            raise PrometheusError(
                f"Prometheus did not answer {_FAILURES} times in a row: it is asked again in "
                f"{seconds:.0f} s"
            )

    def _enter(self) -> None:
        with self._lock:
            # It may have been closed meanwhile.
            self._check()
            if self._failures >= _FAILURES:
                # This one finds out whether it answers again; the others wait for that.
                self._closed_until = self._clock() + self._rest_seconds

    def _note_silence(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._closed_until = self._clock() + self._rest_seconds
