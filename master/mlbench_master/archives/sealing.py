"""Sealing: write the archives of runs that have ended, and delete archives that are too old.

A separate thread seals, so that the next run does not wait. Each turn starts from the state of the
database: a killed controller leaves at most a draft, which is never read.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from peewee import fn

from mlbench import archive
from mlbench.evaluation.summary_metrics import metrics_of, summary_metrics_of
from mlbench.local.backoff import Backoff
from mlbench_master.archives import contents
from mlbench_master.database.connection import STATE, exclusive, store
from mlbench_master.database.models import Deletion, Run, added_owner, run_owner
from mlbench_master.notify import Waiter, notify
from mlbench_master.reading.promql import PrometheusError
from mlbench_master.reading.record import LiveRecord
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording import not_recorded, streams
from mlbench_master.results.result_query import energy_of, result_of
from mlbench_master.runs import presenters

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Sealer:
    """Seals runs."""

    reader: SeriesReader
    days: int = 0
    """Number of days for which archives are kept after the end of their run; 0: forever."""
    with_logs: bool = False
    """Whether archives contain the logs of the ranks."""

    def run(self, waiter: Waiter, stop: Waiter) -> None:
        """Seal until stopped.

        After a failure, pauses grow, and new work does not end them: only ``stop`` does.
        """
        wait, pause, backoff = waiter.wait, _LOOK_SECONDS, Backoff(2 * _LOOK_SECONDS, 60.0)
        while not wait(pause):
            try:
                failed = self.turn()
            except Exception:
                failed = True
                log.exception("sealing failed, trying again")
            if failed:
                wait, pause = stop.wait, backoff.seconds()
            else:
                wait, pause = waiter.wait, _LOOK_SECONDS
                backoff.reset()

    def turn(self) -> bool:
        """Seal the runs that are due, delete old archives, and return whether anything failed."""
        # Later samples clear ``sealed_at``.
        is_due = Run.sealed_at.is_null() & Run.finished_at.is_null(False)
        due = Run.select().where(is_due, Run.blocks_deleted_at.is_null())
        has_failed = False
        for run in list(due.order_by(Run.id)):
            if streams.waiting(run_owner(run.id)):
                continue
            try:
                self.seal(run)
            except Exception as error:
                has_failed = True
                log.warning("run %d is not sealed yet, trying again: %s", run.id, error)
                store(run, archive_problem=f"{error}: it is tried again", sealed_at=None)
            else:
                log.info("run %d: sealed", run.id)
                notify()  # so that its set continues
        with_additions = Run.select().where(Run.added.is_null(False), Run.archive.is_null(False))
        for run in list(with_additions):
            is_sealed = run.added.get("sealed") == run.added["samples"]
            if is_sealed or streams.waiting(added_owner(run.id)):
                continue
            try:
                self.seal_added(run)
            except Exception as error:
                has_failed = True
                log.warning("what was added to run %d is not sealed yet: %s", run.id, error)
        unmeasured = Run.select().where(Run.archive.is_null(False), Run.archive_bytes.is_null())
        for run in list(unmeasured):
            names = filter(None, (run.archive, (run.added or {}).get("archive")))
            store(run, archive_bytes=sum(map(self.reader.archives.size, names)))
        for deletion in list(Deletion.select().where(Deletion.archived)):
            self.reader.archives.delete(int(deletion.owner.rpartition("/")[2]))
            Deletion.update(archived=False).where(Deletion.owner == deletion.owner).execute()
        if self.days:
            # A recording that is shipped long after its end is kept as long as any other run.
            ended_at = fn.COALESCE(Run.shipped_at, Run.finished_at)
            old = ended_at < time.time() - self.days * 86_400
            # An imported run has nothing but its archive, which is deleted with the run.
            own = Run.archive.is_null(False) & Run.origin.is_null()
            for run in list(Run.select(Run.id).where(own, old)):
                self.reader.archives.delete(run.id)
                store(run, archive=None, archive_sha256=None, archive_bytes=None)
        return has_failed

    def seal(self, run: Run) -> None:
        """Write the archive of a run from its record, and the resource usage of its pods.

        If Prometheus does not return the usage, the archive lacks it, and its manifest says so.

        Raises:
            ArchiveError: the archive cannot be written now.
        """
        try:
            self._seal(run, with_usage=True)
        except PrometheusError as error:
            log.warning("run %d is sealed without the usage of its pods: %s", run.id, error)
            self._seal(run, with_usage=False)

    def _seal(self, run: Run, *, with_usage: bool) -> None:
        if with_usage:
            run.energy_joules = energy_of(self.reader.prometheus, run)
        result = result_of(self.reader, run)
        figures = asdict(summary_metrics_of(result))
        store(run, energy_joules=run.energy_joules, figures=figures)
        if result.target == presenters.target_of(run) and result.time_to_target is None:
            store(run, target_reached_at=None, target_train_seconds=None)
        if (reached := result.time_to_target) is not None and run.started_at is not None:
            at, seconds = run.started_at + reached.wall_seconds, reached.training_seconds
            store(run, target_reached_at=at, target_train_seconds=seconds)
        pods = self.reader.samples_of_pods(run, Selection(with_usage=with_usage))
        if run.archive is None:  # a later archive gets the usage from the first one
            not_recorded.store_pods_without_usage(run, 0 if with_usage else len(run.pods))
        documents = contents.documents(run, result)
        texts = chain(contents.files_of(run), contents.logs_of(run) if self.with_logs else ())
        name = archive.file_name(run.name, run.id)

        def look(written: archive.Archive) -> None:
            figures["metrics"] = metrics_of(written)

        usage = contents.series_of_pods(pods)
        digest = self._put(name, run_owner(run.id), documents, usage, texts, look)
        sealed = {"archive": name, "archive_sha256": digest, "archive_problem": ""}
        with exclusive(STATE):
            is_there = store(
                run, **sealed, archive_bytes=None, figures=figures, sealed_at=time.time()
            )
        if not is_there:
            self.reader.archives.delete(run.id)

    def seal_added(self, run: Run) -> None:
        """Write the samples that were posted after a run's end into a separate archive.

        Raises:
            The errors of ``seal``.
        """
        name = archive.file_name(run.name, run.id, archive.ADDED_SUFFIX)
        documents = {archive.ADDED: contents.added(run)}
        digest = self._put(name, added_owner(run.id), documents)
        sealed = {"archive": name, "sha256": digest, "sealed": run.added["samples"]}
        with exclusive(added_owner(run.id)):
            current = Run.get_or_none(Run.id == run.id)
            is_there = current is not None and store(
                current, added=current.added | sealed, archive_bytes=None
            )
        if not is_there:
            self.reader.archives.delete(run.id)

    def _put(
        self,
        name: str,
        owner: str,
        documents: Mapping[str, Any],
        more: Iterable[tuple[archive.SeriesName, Iterator[archive.Piece]]] = (),
        texts: Iterable[tuple[str, Iterator[bytes]]] = (),
        look: Callable[[archive.Archive], None] | None = None,
    ) -> str:
        """Write an archive of an owner's samples, call ``look`` with it, and return its digest."""

        def write(draft: Path) -> str:
            series = contents.series_of_record(LiveRecord(owner))
            digest = archive.write(draft, documents, chain(series, more), texts)
            if look:
                with archive.opened(draft) as written:
                    look(written)
            return digest

        return self.reader.archives.put(name, write)
