"""The autopsies that the master asks for: each is done once, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable

from mlbench.backoff import Backoff
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.link import Link, LinkError, RefusedError

Progress = tuple[int, float]
"""The steps that a rank has told of, and when the last one was in Unix seconds; 0 if never."""

log = logging.getLogger(__name__)

# Later, nobody waits for it any more.
_PATIENCE_SECONDS = 60.0


class Autopsies:
    """Gathers the evidence of a rank whenever the master asks for it, and sends it."""

    def __init__(
        self, connect: Callable[[], Link], progress: Callable[[Attempt], Progress]
    ) -> None:
        """``progress`` tells the steps of a rank."""
        self._connect = connect
        self._progress = progress
        self._last: int | None = None

    def follow(self, wanted: int | None, pod: str, attempt: Attempt, root: int | None) -> None:
        """Do an autopsy unless it was done, as long as it may take; ``root`` as in ``gather``."""
        if wanted is None or wanted == self._last:
            return

        def run() -> None:
            try:
                self._do(wanted, pod, attempt, root)
            except Exception:
                # A rank that cannot be looked into can still train.
                log.exception("autopsy %d cannot be done", wanted)

        threading.Thread(target=run, name="autopsy", daemon=True).start()
        self._last = wanted

    def _do(self, wanted: int, pod: str, attempt: Attempt, root: int | None) -> None:
        # Most agents never need it.
        from mlbench_worker.agent.autopsy.gather import gather  # noqa: PLC0415

        until = time.monotonic() + _PATIENCE_SECONDS
        evidence = gather(attempt, root, *self._progress(attempt))
        link, backoff = self._connect(), Backoff()
        while True:
            try:
                link.give_evidence(pod, wanted, evidence)
                break
            except LinkError as error:
                if time.monotonic() > until:
                    raise
                log.warning("cannot send the evidence of autopsy %d: %s", wanted, error)
                time.sleep(backoff.seconds())
            except RefusedError as error:
                log.warning("the master does not want the evidence: %s", error)
                break
        link.close()
