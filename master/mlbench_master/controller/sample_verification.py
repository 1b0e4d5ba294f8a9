"""Verify that Prometheus has the samples of runs, and send those again that it lost.

Prometheus answers 204 even for samples that it drops, and may lose some with its disk. So every run
is counted by query: once all of its blocks were exported, and again an hour later. The record keeps
all samples meanwhile, so nothing waits for this.

Each turn starts from the database, so it can be killed anywhere.
"""

import logging
import threading
import time
from dataclasses import asdict

from mlbench.contract.limits import PAST_MS
from mlbench_master.database.connection import exclusive, run_sql, store
from mlbench_master.database.models import DeletedRun, Run, run_owner
from mlbench_master.notify import Waiter
from mlbench_master.reading.counting import SampleCounts, count, waits_for_export
from mlbench_master.reading.promql import NoPrometheusError, PrometheusClient, PrometheusError
from mlbench_master.recording import streams
from mlbench_master.recording.export import Exporter

log = logging.getLogger(__name__)

# Blocks are kept this long after a run's end: until then, a power failure may cost Prometheus
# samples that it has accepted.
KEPT_SECONDS = 3600.0
# A Prometheus that loses samples again after this many resends has another fault than its disk.
_MAX_RESENDS = 3
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
# Blocks that are deleted in one transaction; other writers wait as long.
_DELETED_AT_ONCE = 100
_DELETE_SOME = """
    DELETE FROM block WHERE id IN (SELECT id FROM block WHERE owner = ? ORDER BY id LIMIT ?)
"""


_LEFT = """
    SELECT DISTINCT block.owner FROM block JOIN run ON block.owner = 'run/' || run.id
    WHERE run.blocks_deleted_at IS NOT NULL
"""


class SampleVerifier:
    """Counts the samples of ended runs in Prometheus, and deletes their blocks after a while."""

    def __init__(self, prometheus: PrometheusClient, exporter: Exporter) -> None:
        self.prometheus = prometheus
        self.exporter = exporter
        self._recounting = threading.Event()
        self._prometheus_began = ""

    def recount(self) -> None:
        """Have all runs counted again whose blocks are there."""
        self._recounting.set()

    def run(self, waiter: Waiter) -> None:
        """Verify runs until the controller stops; retry while Prometheus is away."""
        while not waiter.wait(5.0):
            try:
                self.turn()
            except PrometheusError as error:
                # It may have lost samples when it is back.
                self.recount()
                log.warning("no run can be counted, trying again: %s", error)
            except Exception:
                log.exception("counting failed, trying again")

    def turn(self) -> None:
        """Verify ended runs that were never counted, or whose blocks can be deleted; or all runs.

        Raises:
            PrometheusError: samples cannot be counted now.
        """
        began = self.prometheus.began()
        if began != self._prometheus_began:
            # The disk may be new: in a cluster, each upgrade may bring an empty one.
            Run.update(resends=0).where(Run.blocks_deleted_at.is_null()).execute()
            self._prometheus_began = began
            for problem in self.prometheus.problems():
                log.warning("Prometheus lacks a setting: %s", problem)
            self._recounting.set()
        is_recount = self._recounting.is_set()
        self._recounting.clear()
        if is_recount:
            for (owner,) in run_sql(_LEFT).fetchall():  # by a controller that was killed
                _delete_blocks(owner)
        now = time.time()
        own = Run.select().where(Run.origin.is_null(), Run.blocks_deleted_at.is_null())
        for run in list(own.order_by(Run.id)):
            # The end is in the future if the system clock was set back since.
            is_old = run.finished_at is not None and abs(now - run.finished_at) > KEPT_SECONDS
            is_new = run.finished_at is not None and run.delivery is None
            is_due = is_new or (is_old and run.sealed_at is not None)
            if not is_recount and (not is_due or _waits(run.id)):
                continue
            try:
                self.verify(run)
            except PrometheusError:
                raise
            except Exception:
                log.exception("run %d cannot be counted, trying again", run.id)
        self._delete_series()

    def verify(self, run: Run) -> None:
        """Count a run's samples; send them again if Prometheus lost some, or delete old blocks.

        Raises:
            PrometheusError: samples cannot be counted now.
        """
        counted: SampleCounts = count(self.prometheus, run)
        is_young = time.time() - (run.started_at or 0.0) < PAST_MS / 1000
        if counted.lost > 0 and is_young and run.resends < _MAX_RESENDS:
            log.warning("run %d: Prometheus lost samples, sending again: %s", run.id, counted)
            Run.update(resends=Run.resends + 1, delivery=None).where(Run.id == run.id).execute()
            self.exporter.send_again(run_owner(run.id))
            return
        if run.finished_at is None or _waits(run.id):
            return
        store(run, delivery=asdict(counted))
        is_over = abs(time.time() - run.finished_at) > KEPT_SECONDS
        if not is_over or Run.get_or_none(Run.id == run.id, Run.sealed_at.is_null(False)) is None:
            return
        # First, so that readers open the archive.
        store(run, blocks_deleted_at=time.time())
        _delete_blocks(run_owner(run.id))
        log.info("run %d: its blocks are deleted, its samples are in its archive", run.id)

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


def _waits(run_id: int) -> bool:
    """Return whether lines of a run are not indexed, or blocks not exported."""
    return waits_for_export(run_id) or bool(streams.waiting(run_owner(run_id)))


def _delete_blocks(owner: str) -> None:
    deleted = _DELETED_AT_ONCE
    while deleted == _DELETED_AT_ONCE:
        with exclusive(owner):
            deleted = run_sql(_DELETE_SOME, owner, _DELETED_AT_ONCE).rowcount
        time.sleep(0.02)  # so that others can write
