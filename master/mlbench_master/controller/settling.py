"""Settle runs: count their samples at the end, and again once Prometheus has them on its disk.

Prometheus answers 204 also for samples that it drops, and may lose some with its disk. So every run
is counted by query, and what is missing is delivered again.

This asks Prometheus, so it has a thread of its own: decisions never wait for it. It begins from
what the database says each time, so it may be killed anywhere.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict

from peewee import Expression

from mlbench.contract.names import ACTIVE_STATES
from mlbench_master.database.connection import STATE, exclusive
from mlbench_master.database.models import DeletedRun, Run, run_owner
from mlbench_master.notify import Waiter, notify
from mlbench_master.reading.counting import SampleCounts, count, span_of
from mlbench_master.reading.promql import NoAnswerError, PrometheusClient, PrometheusError
from mlbench_master.recording.delivery import Delivery
from mlbench_master.recording.plan import FUTURE_MS
from mlbench_master.recording.remote_write import UnavailableError
from mlbench_master.recording.streams import forget_delivered, forget_some, rewind, waits

log = logging.getLogger(__name__)

# Chunks are kept this long after a run's end: until then, Prometheus may lose samples that it took
# in a power failure.
KEPT_SECONDS = 3600.0
# Between two transactions that delete chunks: others want to write too.
_PAUSE_SECONDS = 0.02
# What one Prometheus loses again and again was not lost with a disk.
_MOST_REDELIVERIES = 3
# The last scrapes of a run's workers have come so long after its deletion.
_SCRAPED_SECONDS = 15.0
# Samples that came an hour late are in a block by then: Prometheus deletes none in its memory.
_COMPACTED_SECONDS = 6 * 3600.0
# Others may have series with a run_id in the same Prometheus.
_OURS = (
    '__name__=~"mlbench_.+|run(_[a-z]+)*:.+"',
    '__name__=~"ALERTS|ALERTS_FOR_STATE",alertname=~"MLBench.+"',
)
# How many runs one selector names.
_SELECTED = 200
# Older samples would be kept, not sent, and so counted beside what Prometheus has of them.
_YOUNG_MS = 22 * 3600 * 1000


class Settler:
    """Counts the runs that the controller asks about, and settles those that have ended."""

    def __init__(
        self, prometheus: PrometheusClient, delivery: Delivery, look_seconds: float = 5.0
    ) -> None:
        """``look_seconds``: how often to look for ended runs, and for a restarted Prometheus."""
        self.prometheus = prometheus
        self.delivery = delivery
        self._look_seconds = look_seconds
        self._looked_at = float("-inf")
        self._asked: set[int] = set()
        self._recounting = threading.Event()
        self._prometheus_began = ""

    def ask(self, run_id: int) -> None:
        """Have a run counted soon: ask again until its ``delivery`` is there."""
        self._asked.add(run_id)
        notify()

    def recount(self) -> None:
        """Have all runs counted again of which samples can still be delivered again."""
        self._recounting.set()

    def run(self, waiter: Waiter) -> None:
        """Count and settle until told to stop; try again while Prometheus is away."""
        while not waiter.wait(self._look_seconds):
            try:
                self.turn()
            except (PrometheusError, UnavailableError) as error:
                log.warning("no run can be counted, trying again: %s", error)
            except Exception:
                log.exception("counting failed, trying again")

    def turn(self) -> None:
        """Count and settle the runs that are due.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
            ExceptionGroup: some runs could not be counted; the others were.
        """
        failures = []
        for run_id, is_at_its_end in self._find_due():
            try:
                self._settle(run_id, is_at_its_end=is_at_its_end)
            except (PrometheusError, UnavailableError):
                # It may have lost samples when it is back.
                self.recount()
                raise
            except Exception as error:
                failures.append(error)
        self._delete_series()
        if failures:
            raise ExceptionGroup("runs could not be counted", failures)

    def _delete_series(self) -> None:
        for once, seconds in ((False, _SCRAPED_SECONDS), (True, _COMPACTED_SECONDS)):
            due = DeletedRun.once == once, DeletedRun.deleted_at < time.time() - seconds
            found = [one.run_id for one in DeletedRun.select().where(*due).limit(_SELECTED)]
            these = DeletedRun.run_id.in_(found)
            if found and self._try_to_delete(found) and not once:
                DeletedRun.update(once=True).where(these).execute()
            elif found:
                DeletedRun.delete().where(these).execute()

    def _try_to_delete(self, run_ids: Collection[int]) -> bool:
        """Have Prometheus delete the series of runs; return whether it does such a thing."""
        its = f'run_id=~"{"|".join(map(str, run_ids))}"'
        try:
            self.prometheus.delete_series(*(f"{{{ours},{its}}}" for ours in _OURS))
        except NoAnswerError:
            raise
        except PrometheusError as error:
            log.warning("the series of the runs %s stay as long as others: %s", run_ids, error)
            return False
        return True

    def count(self, run: Run) -> SampleCounts | None:
        """Count a run's samples; None while some are on their way to Prometheus.

        Samples that Prometheus lost are on their way again after this.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
        """
        owner = run_owner(run.id)
        # Without it, a sample posted meanwhile could be in Prometheus and not yet in the database.
        with self.delivery.settled(owner):
            is_whole = not waits(owner)
            counted = count(self.prometheus, run.id)
            if not (counted.lost > 0 and _may_redeliver(run) and rewind(owner)):
                return counted if is_whole else None
        log.warning("run %d: Prometheus lost samples, delivering again: %s", run.id, counted)
        Run.update(redeliveries=Run.redeliveries + 1, delivery=None).where(
            Run.id == run.id
        ).execute()
        return None

    def _find_due(self) -> Iterator[tuple[int, bool]]:
        """Yield the runs to count, and whether they are known to be at their end.

        Once Prometheus was away, thousands of old runs are due. No run that the controller asks
        about waits for them.
        """
        yield from self._pop_asked()
        for run_id, is_at_its_end in self._look():
            yield from self._pop_asked()
            if not (is_at_its_end and waits(run_owner(run_id))):
                yield run_id, is_at_its_end

    def _pop_asked(self) -> Iterator[tuple[int, bool]]:
        for _ in range(len(self._asked)):
            yield self._asked.pop(), True

    def _look(self) -> Iterator[tuple[int, bool]]:
        """Yield the runs that are due by themselves, if it is time to look for them."""
        if time.monotonic() - self._looked_at < self._look_seconds:
            return
        began = self.prometheus.began()
        if began != self._prometheus_began:
            # It may have another disk: in a cluster, each upgrade may bring an empty one.
            tried = Run.settled_at.is_null(), Run.redeliveries > 0
            Run.update(redeliveries=0).where(*tried).execute()
            self._prometheus_began = began
            self._recounting.set()
        if self._recounting.is_set():
            # Prometheus was away or restarted since all runs were counted.
            self._recounting.clear()
            for run_id in _unsettled():
                yield run_id, False
        for run_id in _unsettled(_is_due()):
            yield run_id, True
        self._looked_at = time.monotonic()

    def _settle(self, run_id: int, *, is_at_its_end: bool) -> None:
        run: Run | None = Run.get_or_none(Run.id == run_id)
        if run is None or (counted := self.count(run)) is None:
            return
        if is_at_its_end or run.finished_at is not None:
            _store(run, counted)
        # By a system clock that was set back since, the end is in the future.
        if run.finished_at is not None and abs(time.time() - run.finished_at) > KEPT_SECONDS:
            run = Run.get_or_none(Run.id == run_id, Run.sealed_at.is_null(False))
            if run is not None:
                _delete_chunks(run)


def _unsettled(*conditions: Expression) -> list[int]:
    unsettled = Run.select(Run.id).where(Run.settled_at.is_null(), *conditions)
    return [run.id for run in unsettled.order_by(Run.id)]


def _is_due() -> Expression:
    """Select runs that have ended, and were never counted, or not since they can be settled."""
    now = time.time()
    is_old = (Run.finished_at < now - KEPT_SECONDS) | (Run.finished_at > now + KEPT_SECONDS)
    # Until its archive is written, the chunks are all that a disk of Prometheus could lose.
    may_settle = is_old & Run.sealed_at.is_null(False)
    return Run.finished_at.is_null(False) & (Run.delivery.is_null() | may_settle)


def _may_redeliver(run: Run) -> bool:
    """Check that delivering a run again would send its samples, not keep them."""
    if run.redeliveries >= _MOST_REDELIVERIES:
        return False
    span, now_ms = span_of(run_owner(run.id)), time.time_ns() // 1_000_000
    return span is None or (
        now_ms - _YOUNG_MS < span.first_ms and span.last_ms <= now_ms + FUTURE_MS
    )


def _store(run: Run, counted: SampleCounts) -> None:
    """Store a count, unless the run has begun another attempt meanwhile."""
    with exclusive(STATE):
        now = Run.get_or_none(Run.id == run.id, Run.attempt == run.attempt)
        if now is None:
            return
        now.delivery, missing = asdict(counted), counted.disagreement
        # The reason of an active run comes with the decision how it ends.
        if now.state not in ACTIVE_STATES and missing not in now.reason:
            # After the first line come the last lines of a rank's stderr.
            first, line_end, stderr = now.reason.partition("\n")
            now.reason = "; ".join(filter(None, (first, missing))) + line_end + stderr
        now.save(only=[Run.delivery, Run.reason])


def _delete_chunks(run: Run) -> None:
    """Delete the chunks of a run's samples, which Prometheus has on its disk by now."""
    owner = run_owner(run.id)
    while forget_some(owner):
        time.sleep(_PAUSE_SECONDS)
    with exclusive(owner):
        forget_delivered(owner)
        Run.update(settled_at=time.time()).where(Run.id == run.id).execute()
    log.info("run %d: settled", run.id)
