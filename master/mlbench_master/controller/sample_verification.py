"""Verify that Prometheus has the samples of runs: at their end, and again an hour later.

Prometheus answers 204 even for samples that it drops, and may lose some with its disk. So every run
is counted by query, and missing samples are delivered again.

The queries have a thread of their own, so that decisions never wait for Prometheus. Each turn
starts from the database, so it can be killed anywhere.
"""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict

from peewee import Expression

from mlbench.contract.names import ACTIVE_STATES
from mlbench_master.database.connection import STATE, exclusive
from mlbench_master.database.models import DeletedRun, Run, run_owner
from mlbench_master.notify import Waiter, notify
from mlbench_master.reading.counting import SampleCounts, count, span_of
from mlbench_master.reading.promql import NoPrometheusError, PrometheusClient, PrometheusError
from mlbench_master.recording.delivery import SampleDelivery
from mlbench_master.recording.plan import FUTURE_MS
from mlbench_master.recording.remote_write import UnavailableError
from mlbench_master.recording.streams import forget_delivered, forget_some, rewind, waits

log = logging.getLogger(__name__)

# Chunks are kept this long after a run's end: until then, a power failure may cost Prometheus
# samples that it has accepted.
KEPT_SECONDS = 3600.0
# Samples that a Prometheus loses again and again were not lost with a disk.
_MAX_REDELIVERIES = 3
# The last scrapes of a run's workers have arrived this long after its deletion.
_SCRAPED_SECONDS = 15.0
# Samples that came an hour late are in a block after this long. Prometheus deletes none from its
# memory, so a second deletion is needed then.
_COMPACTED_SECONDS = 6 * 3600.0
# Other programs may have series with a run_id in the same Prometheus.
_OURS = (
    '__name__=~"mlbench_.+|run(_[a-z]+)*:.+"',
    '__name__=~"ALERTS|ALERTS_FOR_STATE",alertname=~"MLBench.+"',
)
# Only samples that Prometheus accepts are delivered again. Others would be stored in the database,
# and so be counted twice.
_YOUNG_MS = 22 * 3600 * 1000


class SampleVerifier:
    """Counts the runs that the controller asks about, and verifies those that have ended."""

    def __init__(
        self, prometheus: PrometheusClient, delivery: SampleDelivery, look_seconds: float = 5.0
    ) -> None:
        """Prepare; ``look_seconds``: interval of looks for ended runs, and a new Prometheus."""
        self.prometheus = prometheus
        self.delivery = delivery
        self._look_seconds = look_seconds
        self._looked_at = float("-inf")
        self._asked: set[int] = set()
        self._recounting = threading.Event()
        self._prometheus_began = ""

    def ask(self, run_id: int) -> None:
        """Have a run counted soon. Ask again until it has a ``delivery``."""
        self._asked.add(run_id)
        notify()

    def recount(self) -> None:
        """Have all runs counted again whose samples can still be redelivered."""
        self._recounting.set()

    def run(self, waiter: Waiter) -> None:
        """Count and verify runs until the controller stops; retry while Prometheus is away."""
        while not waiter.wait(self._look_seconds):
            try:
                self.turn()
            except (PrometheusError, UnavailableError) as error:
                log.warning("no run can be counted, trying again: %s", error)
            except Exception:
                log.exception("counting failed, trying again")

    def turn(self) -> None:
        """Count and verify the runs that are due.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
            ExceptionGroup: some runs could not be counted; the others were.
        """
        failures = []
        for run_id, is_at_its_end in self._find_due():
            try:
                self._settle(run_id, is_at_its_end=is_at_its_end)
            except (PrometheusError, UnavailableError):
                # Prometheus may have lost samples when it is back.
                self.recount()
                raise
            except Exception as error:
                failures.append(error)
        self._delete_series()
        if failures:
            raise ExceptionGroup("runs could not be counted", failures)

    def _delete_series(self) -> None:
        """Have Prometheus delete the series of deleted runs, twice."""
        for once, seconds in ((False, _SCRAPED_SECONDS), (True, _COMPACTED_SECONDS)):
            due = DeletedRun.once == once, DeletedRun.deleted_at < time.time() - seconds
            # The number of runs is limited by the length of a selector.
            run_ids = [row.run_id for row in DeletedRun.select().where(*due).limit(200)]
            if not run_ids:
                continue
            of_runs = f'run_id=~"{"|".join(map(str, run_ids))}"'
            needs_second = not once
            try:
                self.prometheus.delete_series(*(f"{{{ours},{of_runs}}}" for ours in _OURS))
            except NoPrometheusError:
                raise
            except PrometheusError as error:
                log.warning("the series of the runs %s stay as long as others: %s", run_ids, error)
                needs_second = False
            rows = DeletedRun.run_id.in_(run_ids)
            if needs_second:
                DeletedRun.update(once=True).where(rows).execute()
            else:
                DeletedRun.delete().where(rows).execute()

    def count(self, run: Run) -> SampleCounts | None:
        """Count a run's samples; None while some are on their way to Prometheus.

        Samples that Prometheus lost are queued for delivery again.

        Raises:
            PrometheusError, UnavailableError: samples cannot be counted now.
        """
        owner = run_owner(run.id)
        # Otherwise, a sample posted meanwhile could be in Prometheus but not yet in the database.
        with self.delivery.settled(owner):
            is_whole = not waits(owner)
            counted = count(self.prometheus, run.id)
            may_redeliver = counted.lost > 0 and run.redeliveries < _MAX_REDELIVERIES
            if may_redeliver and (span := span_of(owner)) is not None:
                now_ms = time.time_ns() // 1_000_000
                is_young = now_ms - _YOUNG_MS < span.first_ms
                may_redeliver = is_young and span.last_ms <= now_ms + FUTURE_MS
            if not (may_redeliver and rewind(owner)):
                return counted if is_whole else None
        log.warning("run %d: Prometheus lost samples, delivering again: %s", run.id, counted)
        Run.update(redeliveries=Run.redeliveries + 1, delivery=None).where(
            Run.id == run.id
        ).execute()
        return None

    def _find_due(self) -> Iterator[tuple[int, bool]]:
        """Yield the runs to count, and whether they are known to be at their end.

        Runs that the controller asks about come first: thousands of old runs are due after
        Prometheus was away. The others are looked for every ``look_seconds``.
        """
        yield from self._pop_asked()
        if time.monotonic() - self._looked_at < self._look_seconds:
            return
        began = self.prometheus.began()
        if began != self._prometheus_began:
            # The disk may be new: in a cluster, each upgrade may bring an empty one.
            redelivered = Run.settled_at.is_null(), Run.redeliveries > 0
            Run.update(redeliveries=0).where(*redelivered).execute()
            self._prometheus_began = began
            self._recounting.set()
        if self._recounting.is_set():
            # Prometheus was away or restarted since all runs were counted.
            self._recounting.clear()
            for run_id in _unsettled():
                yield from self._pop_asked()
                yield run_id, False
        for run_id in _unsettled(_is_due()):
            yield from self._pop_asked()
            if not waits(run_owner(run_id)):
                yield run_id, True
        self._looked_at = time.monotonic()

    def _pop_asked(self) -> Iterator[tuple[int, bool]]:
        for _ in range(len(self._asked)):
            yield self._asked.pop(), True

    def _settle(self, run_id: int, *, is_at_its_end: bool) -> None:
        run: Run | None = Run.get_or_none(Run.id == run_id)
        if run is None or (counted := self.count(run)) is None:
            return
        if is_at_its_end or run.finished_at is not None:
            _store(run, counted)
        # The end is in the future if the system clock was set back since.
        if run.finished_at is None or abs(time.time() - run.finished_at) <= KEPT_SECONDS:
            return
        if Run.get_or_none(Run.id == run_id, Run.sealed_at.is_null(False)) is None:
            return
        owner = run_owner(run_id)
        while forget_some(owner):
            time.sleep(0.02)  # seconds between two transactions, so that others can write
        with exclusive(owner):
            forget_delivered(owner)
            Run.update(settled_at=time.time()).where(Run.id == run_id).execute()
        log.info("run %d: settled", run_id)


def _unsettled(*conditions: Expression) -> list[int]:
    unsettled = Run.select(Run.id).where(Run.settled_at.is_null(), *conditions)
    return [run.id for run in unsettled.order_by(Run.id)]


def _is_due() -> Expression:
    """Select ended runs that were never counted, or not since their samples can be deleted."""
    now = time.time()
    is_old = (Run.finished_at < now - KEPT_SECONDS) | (Run.finished_at > now + KEPT_SECONDS)
    # Until the archive of a run is written, only its chunks can replace the disk of Prometheus.
    may_settle = is_old & Run.sealed_at.is_null(False)
    return Run.finished_at.is_null(False) & (Run.delivery.is_null() | may_settle)


def _store(run: Run, counted: SampleCounts) -> None:
    """Store a count, unless the run has begun another attempt meanwhile."""
    with exclusive(STATE):
        current = Run.get_or_none(Run.id == run.id, Run.attempt == run.attempt)
        if current is None:
            return
        current.delivery, missing = asdict(counted), counted.disagreement
        # The reason of an active run is set together with its end.
        if current.state not in ACTIVE_STATES and missing not in current.reason:
            # The first line is the reason; the last lines of a rank's stderr follow.
            reason, line_end, stderr = current.reason.partition("\n")
            current.reason = "; ".join(filter(None, (reason, missing))) + line_end + stderr
        current.save(only=[Run.delivery, Run.reason])
