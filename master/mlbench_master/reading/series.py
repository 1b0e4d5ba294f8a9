"""Reading a run's or a pod's series: choose, fetch from every place, merge, thin out."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mlbench.archive import ArchiveError
from mlbench.contract.records import RunMetric
from mlbench.contract.series import SeriesKey, series_name
from mlbench_master.database.connection import run_sql
from mlbench_master.database.models import (
    Pod,
    Rank,
    Run,
    Series,
    Stream,
    UnstorableSample,
    added_owner,
    archive_of,
    pod_owner,
    run_owner,
)
from mlbench_master.reading import archived, containers, stored
from mlbench_master.reading.delivered import DeliveredReader, LostSamplesError
from mlbench_master.reading.points import Reader, as_added
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.selection import NamedSeries, Selection
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.reading.stored import Stored

_METRICS = "SELECT metric, MIN(rank) FROM seriesname WHERE owner = ? GROUP BY metric"


@dataclass(frozen=True)
class SeriesReader:
    """Reads series from Prometheus, from the samples that wait for it, and from the database.

    If Prometheus has lost or expired samples of a run, it reads the archive. The returned iterators
    raise ``PrometheusError``, possibly in the middle, without a response or without an archive.
    """

    prometheus: PrometheusClient
    archives: ArchiveStore
    _checked: dict[object, float] = field(default_factory=dict)

    def run(self, run_id: int, selection: Selection) -> NamedSeries:
        """Yield a run's series: ``train_loss @ 0`` for a rank's, else ``train_loss``."""
        run = Run.get_or_none(Run.id == run_id)
        if run is None or run.origin is None:
            has_more = selection.with_added and run is not None and run.added is not None
            added = [added_owner(run_id)] if has_more else []
            yield from self._read([run_owner(run_id), *added], (), selection)
        elif run.archive is not None:
            with self.archives.open(run.archive) as archive:
                yield from archived.series_of(archive, selection)

    def metrics(self, run: Run) -> list[RunMetric]:
        """Return the metrics that a run has recorded, in order of their names.

        Those that nobody has asked Prometheus to store yet, a second after they came, are left out.
        """
        first_ranks: dict[str, str] = {}
        if run.origin is None:
            first_ranks = dict(run_sql(_METRICS, run_owner(run.id)).fetchall())
        elif run.archive is not None:
            with self.archives.open(run.archive) as archive:
                series = [(name.metric, name.rank) for name in archive.series if not name.pod]
            # The dict keeps the last item of each metric, its first rank.
            first_ranks = dict(sorted(series, reverse=True))
        return [RunMetric(name, rank != "") for name, rank in sorted(first_ranks.items())]

    def pod(self, pod: str, selection: Selection) -> NamedSeries:
        """Yield a pod's series: resource figures from the exporter, and posted samples."""
        for _, figures in containers.read(self.prometheus, [pod], selection, _now_ms()):
            yield from self._read([pod_owner(pod)], figures, selection)

    def pods(self, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each known pod with its series, in order of their names."""
        posted = _pods_in(Stream)
        pods = sorted({pod.name for pod in Pod.select(Pod.name)} | posted)
        if names := selection.names:
            # Read tables in the order in which samples move between them, to miss none.
            posted = _pods_in(Stream, Stream.delivered < Stream.size)
            for table in (UnstorableSample, Series):
                posted |= _pods_in(table, table.metric.in_(names))
        for pod, figures in containers.read(self.prometheus, pods, selection, _now_ms()):
            # Most pods only have figures, so do not query the database for each.
            owners = [pod_owner(pod)] if pod in posted else []
            yield pod, self._read(owners, figures, selection)

    def pods_of(self, run: Run, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each pod of a run with its series during the run."""
        during = selection.within(
            round(run.created_at * 1e6), round((run.finished_at or time.time()) * 1e6)
        )
        ranks = Rank.select(Rank.worker).where(Rank.run == run.id).distinct()
        with ExitStack() as stack:
            archive = stack.enter_context(self.archives.open(run.archive)) if run.archive else None
            for pod in sorted(rank.worker for rank in ranks):
                if archive is not None:
                    yield pod, archived.series_of(archive, during, pod)
                else:
                    yield pod, self.pod(pod, during)

    def delivered(
        self, stored: Stored, keys: Iterable[SeriesKey], selection: Selection, stack: ExitStack
    ) -> Mapping[SeriesKey, Reader]:
        """Return a way to read each delivered series, until the stack is closed.

        Raises:
            PrometheusError: Prometheus gives no answer, or has lost samples that no archive has.
        """
        keys = list(keys)
        try:
            return DeliveredReader(self.prometheus, stored, selection, self._checked).read(keys)
        except LostSamplesError as lost:
            name = archive_of(stored.owner)
            if name is None:
                raise
            try:
                archive = stack.enter_context(self.archives.open(name))
            except ArchiveError as error:
                raise LostSamplesError(stored.owner, *lost.counts, str(error)) from error
            return archived.delivered(archive, self.prometheus, stored, keys)

    def _read(
        self, owners: Iterable[str], figures: Iterable[tuple[str, Reader]], selection: Selection
    ) -> NamedSeries:
        """Yield the series of owners together, and the figures that were scraped of them."""
        readers: dict[str, list[Reader]] = {}
        # Read the database first. A sample that is delivered meanwhile is then read as waiting,
        # and is later than the samples that are read from Prometheus.
        loaded = [stored.load(owner, selection) for owner in owners]
        with ExitStack() as stack:
            for samples in loaded:
                keys = [key for key in samples.keys if selection.wants(series_name(*key), key[0])]
                delivered = self.delivered(samples, keys, selection, stack)
                for key in sorted(keys):
                    read = partial(samples.merge, key, delivered.get(key), selection.after_us)
                    if samples.owner.startswith(added_owner("")):
                        read = partial(as_added, read)
                    readers.setdefault(series_name(*key), []).append(read)
            for name, figure in figures:
                readers.setdefault(name, []).append(figure)
            yield from selection.series(readers)
        for samples in loaded:
            samples.check()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _pods_in(table: type[Any], *conditions: Any) -> set[str]:
    """Return the pods that own rows of a table."""
    prefix = pod_owner("")
    found = table.select(table.owner).where(table.owner.startswith(prefix), *conditions).distinct()
    return {row.owner.removeprefix(prefix) for row in found}
