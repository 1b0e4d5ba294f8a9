"""Settling runs: each is counted at its end, and once more when Prometheus must have it on disk.

In a thread of its own, as it asks Prometheus: whoever decides what runs do must not wait for that.
It looks at what the database says each time, so it may be killed anywhere.
"""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict

from peewee import Expression

from master.controller.verification import Verifier
from master.database import STATE, exclusive
from master.models import Run, run_owner
from master.reading.counting import Counted
from master.reading.promql import PrometheusError
from master.recording.remote_write import UnavailableError
from master.recording.streams import forget_delivered, forget_some, waits
from mlbench.names import ACTIVE_STATES

log = logging.getLogger(__name__)

# So long after a run's end its chunks are kept: until then, a power loss may cost Prometheus
# what it has taken.
KEPT_SECONDS = 3600.0
# How soon what the controller asks for is counted.
_IDLE_SECONDS = 0.1
_LONGEST_PATIENCE_SECONDS = 5.0
# Between two transactions that forget: others want to write too.
_PAUSE_SECONDS = 0.02


class Settler:
    """Counts the runs that the controller asks about, and settles those that have ended."""

    def __init__(self, verifier: Verifier, look_seconds: float = 1.0) -> None:
        """Look for runs that have ended, and for a new Prometheus, so often."""
        self._verifier = verifier
        self._look_seconds = look_seconds
        self._looked_at = float("-inf")
        self._asked: set[int] = set()
        self._recounting = threading.Event()
        self._prometheus_began = ""

    def ask(self, run_id: int) -> None:
        """Have a run counted soon. Whoever needs it asks until the run's ``delivery`` says it."""
        self._asked.add(run_id)

    def recount(self) -> None:
        """Have all runs counted of which what Prometheus lost can be delivered again."""
        self._recounting.set()

    def run(self, stop: threading.Event) -> None:
        """Count and settle until told to stop, waiting out the times without Prometheus."""
        patience = _IDLE_SECONDS
        while not stop.wait(patience):
            try:
                self.turn()
                patience = _IDLE_SECONDS
            except (PrometheusError, UnavailableError) as error:
                patience = min(patience * 2, _LONGEST_PATIENCE_SECONDS)
                log.warning("no run can be counted, trying again: %s", error)
            except Exception:
                patience = _LONGEST_PATIENCE_SECONDS
                log.exception("counting failed, trying again")

    def turn(self) -> None:
        """Count and settle what there is to be counted and settled now.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
            ExceptionGroup: some runs could not be counted; the others were.
        """
        failures = []
        for run_id, is_at_its_end in self._find():
            try:
                self._count(run_id, is_at_its_end=is_at_its_end)
            except (PrometheusError, UnavailableError):
                # It may have lost something when it is back.
                self.recount()
                raise
            except Exception as error:
                failures.append(error)
        if failures:
            raise ExceptionGroup("runs could not be counted", failures)

    def _find(self) -> Iterator[tuple[int, bool]]:
        """Yield the runs to count, and whether they are known to be at their end."""
        for _ in range(len(self._asked)):
            yield self._asked.pop(), True
        if time.monotonic() - self._looked_at < self._look_seconds:
            return
        if self._must_recount():
            self._recounting.clear()
            for run_id in _ids():
                yield run_id, False
        for run_id in _ids(_is_due()):
            if not waits(run_owner(run_id)):
                yield run_id, True
        self._looked_at = time.monotonic()

    def _must_recount(self) -> bool:
        """Return whether Prometheus was away, or another one was started, since all were counted.

        Raises:
            PrometheusError: Prometheus gives no answer.
        """
        began = self._verifier.prometheus.began()
        if began != self._prometheus_began:
            self._prometheus_began = began
            self._recounting.set()
        return self._recounting.is_set()

    def _count(self, run_id: int, *, is_at_its_end: bool) -> None:
        run: Run | None = Run.get_or_none(Run.id == run_id)
        if run is None or (counted := self._verifier.count(run)) is None:
            return
        if is_at_its_end or run.finished_at is not None:
            _note(run, counted)
        if run.finished_at is not None and _is_old(run.finished_at):
            _settle(run)


def _ids(*conditions: Expression) -> list[int]:
    unsettled = Run.select(Run.id).where(Run.settled_at.is_null(), *conditions)
    return [run.id for run in unsettled.order_by(Run.id)]


def _is_due() -> Expression:
    """Return what selects runs that have ended, and that were not counted yet, or not lately."""
    now = time.time()
    is_old = (Run.finished_at < now - KEPT_SECONDS) | (Run.finished_at > now + KEPT_SECONDS)
    return Run.finished_at.is_null(False) & (Run.delivery.is_null() | is_old)


def _is_old(finished_at: float) -> bool:
    # An end in the future is one of which a clock that was set back told the time.
    return abs(time.time() - finished_at) > KEPT_SECONDS


def _note(run: Run, counted: Counted) -> None:
    """Store what was counted, unless the run has begun another attempt meanwhile."""
    with exclusive(STATE):
        now = Run.get_or_none(Run.id == run.id, Run.attempt == run.attempt)
        if now is None:
            return
        now.delivery = asdict(counted)
        # Of one that goes on, the controller is about to decide how it ends.
        if now.state not in ACTIVE_STATES:
            now.reason = _add(now.reason, counted.disagreement)
        now.save(only=[Run.delivery, Run.reason])


def _add(reason: str, disagreement: str) -> str:
    """Return why a run ended along with what is missing; the last lines of a rank come after."""
    if not disagreement or disagreement in reason:
        return reason
    first, line_end, rest = reason.partition("\n")
    return "; ".join(filter(None, (first, disagreement))) + line_end + rest


def _settle(run: Run) -> None:
    """Forget the chunks of a run's samples: what is in Prometheus now is on its disk."""
    owner = run_owner(run.id)
    while forget_some(owner):
        time.sleep(_PAUSE_SECONDS)
    with exclusive(owner):
        forget_delivered(owner)
        Run.update(settled_at=time.time()).where(Run.id == run.id).execute()
    log.info("run %d: settled", run.id)
