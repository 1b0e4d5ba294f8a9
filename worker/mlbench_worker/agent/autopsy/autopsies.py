"""What the master asks of a rank, autopsies and profiles: each is done once, in its own thread."""

import logging
import threading
from collections.abc import Callable

from mlbench.job_totals import JobTotals
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.link import Link, Reply, send_patiently

_Give = Callable[[Link], None]

log = logging.getLogger(__name__)


class Autopsies:
    """Looks into a rank whenever the master asks for it, and sends what is found."""

    def __init__(
        self, connect: Callable[[], Link], progress: Callable[[Attempt], JobTotals]
    ) -> None:
        """``progress`` tells the steps of a rank."""
        self._connect = connect
        self._progress = progress
        self._last: dict[str, int] = {}

    def follow(self, reply: Reply, pod: str, attempt: Attempt, root: int | None) -> None:
        """Do what a reply asks for unless it was done, as long as it may take.

        ``root`` is as in ``gather``.
        """
        if reply.autopsy is not None:
            self._begin("autopsy", reply.autopsy, lambda: self._look(reply, pod, attempt, root))
        if reply.profile is not None:
            number, seconds = reply.profile
            self._begin("profile", number, lambda: _profile(number, seconds, pod, attempt, root))

    def _begin(self, what: str, number: int, do: Callable[[], _Give]) -> None:
        if self._last.get(what) == number:
            return

        def run() -> None:
            try:
                send_patiently(self._connect, do(), f"what {what} {number} has found")
            except Exception:
                # A rank that cannot be looked into can still train.
                log.exception("%s %d cannot be done", what, number)

        threading.Thread(target=run, name=what, daemon=True).start()
        self._last[what] = number

    def _look(self, reply: Reply, pod: str, attempt: Attempt, root: int | None) -> _Give:
        # Most agents never need it.
        from mlbench_worker.agent.autopsy.gather import gather  # noqa: PLC0415

        assert reply.autopsy is not None
        wanted = reply.autopsy
        evidence = gather(attempt, root, self._progress(attempt), reply.native_rank)
        return lambda link: link.give_evidence(pod, wanted, evidence)


def _profile(number: int, seconds: int, pod: str, attempt: Attempt, root: int | None) -> _Give:
    from mlbench_worker.agent.autopsy.profiler import profile  # noqa: PLC0415

    recorded, content = profile(attempt, root, seconds)
    return lambda link: link.give_profile(pod, number, recorded, content)
