"""Reading series of runs and pods: from Prometheus if it has them all, else from the record."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from mlbench.contract.limits import PAST_MS
from mlbench.contract.records import RunMetric
from mlbench.contract.series import series_name
from mlbench_master.database.connection import run_sql
from mlbench_master.database.models import (
    Block,
    Pod,
    Run,
    Stream,
    added_owner,
    pod_owner,
    run_owner,
)
from mlbench_master.errors import NotFoundError
from mlbench_master.reading import containers, prometheus_series
from mlbench_master.reading.points import Note, Series, merge
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.record import LiveRecord, Record, SealedRecord, SeriesSource
from mlbench_master.reading.selection import (
    NamedSeries,
    Selection,
)
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.reading.windows import Span
from mlbench_master.recording.remote_write import FUTURE_MS

Source = Literal["prometheus", "record"]

_METRICS = "SELECT metric, MIN(rank) FROM seriesname WHERE owner = ? GROUP BY metric"


@dataclass(frozen=True)
class SeriesReader:
    """Reads series. Threads may share it."""

    prometheus: PrometheusClient
    archives: ArchiveStore

    @contextmanager
    def record(self, run: Run, selection: Selection = Selection()) -> Iterator[Record]:  # noqa: B008
        """Open the record of a run.

        Raises:
            NotFoundError: its archive was deleted after its time (404).
        """
        if run.blocks_deleted_at is None:
            yield LiveRecord(run_owner(run.id), selection)
        elif run.archive is None:
            why = run.archive_problem or "they were deleted with its archive"
            raise NotFoundError(
                f"samples: the record of run {run.id} is gone: {why}. "
                "MLBENCH_ARCHIVE_DAYS says how long archives are kept."
            )
        else:
            with self.archives.open(run.archive) as archive:
                yield SealedRecord(archive)

    @contextmanager
    def added(self, run: Run, selection: Selection = Selection()) -> Iterator[Record]:  # noqa: B008
        """Open the record of what arrived after a run's end."""
        name = (run.added or {}).get("archive")
        live = LiveRecord(added_owner(run.id), selection)
        if name is None or live.metrics:
            yield live
        else:
            with self.archives.open(name) as archive:
                yield SealedRecord(archive)

    def run(self, run_id: int, selection: Selection) -> NamedSeries:
        """Yield a run's series from its record: ``train_loss @ 0`` for a rank's."""
        run = Run.get_or_none(Run.id == run_id)
        if run is None:
            return
        with ExitStack() as stack:
            records: list[SeriesSource] = [stack.enter_context(self.record(run, selection))]
            if selection.with_added and run.added is not None:
                records.append(_Added(stack.enter_context(self.added(run, selection))))
            yield from _series_of(records, selection)

    def published(self, run: Run, selection: Selection) -> tuple[Source, NamedSeries]:
        """Return a run's series, from Prometheus if it has all of them, else from the record."""
        if not run.origin and not (selection.with_added and run.added is not None):
            ended_at = time.time() if run.finished_at is None else run.finished_at
            span = Span(round(run.created_at * 1000) - PAST_MS, round(ended_at * 1000) + FUTURE_MS)
            with ExitStack() as stack:
                record = stack.enter_context(self.record(run, selection))
                wanted = selection.metrics
                metrics = [metric for metric in record.metrics if not wanted or metric in wanted]
                owner = run_owner(run.id)
                found = prometheus_series.read(self.prometheus, owner, record, metrics, span)
                if found is not None:
                    return "prometheus", _series_of([_Found(found)], selection)
                return "record", _within(stack.pop_all(), _series_of([record], selection))
        return "record", self.run(run.id, selection)

    def metrics(self, run: Run) -> list[RunMetric]:
        """Return the metrics that a run has recorded, in order of their names.

        Those that were first recorded less than a second ago may be left out.
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
            yield from _series_of([LiveRecord(pod_owner(pod), selection)], selection, figures)

    def pods(self, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each known pod with its series, in order of their names."""
        posted = _pods_in(Stream) | _pods_in(Block)
        pods = sorted({pod.name for pod in Pod.select(Pod.name)} | posted)
        for pod, figures in containers.read(self.prometheus, pods, selection, _now_ms()):
            # Most pods have nothing but figures: the database is not asked about each.
            records = [LiveRecord(pod_owner(pod), selection)] if pod in posted else []
            yield pod, _series_of(records, selection, figures)

    def pods_of(self, run: Run, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each pod of a run with its series during the run."""
        during = selection.within(
            round(run.created_at * 1e6), round((run.finished_at or time.time()) * 1e6)
        )
        with ExitStack() as stack:
            archive = stack.enter_context(self.archives.open(run.archive)) if run.archive else None
            for pod in run.pods:
                if archive is not None:
                    yield pod, _series_of([SealedRecord(archive, pod)], during)
                else:
                    yield pod, self.pod(pod, during)


@dataclass(frozen=True)
class _Added:
    """The samples of a record, which all arrived after the end of their run."""

    record: SeriesSource

    @property
    def metrics(self) -> Sequence[str]:
        return self.record.metrics

    def read(self, metric: str, after_us: int, until_us: int) -> Mapping[str, Series]:
        return {
            rank: replace(
                series,
                notes={
                    i: series.notes.get(i, Note())._replace(added=True)
                    for i in range(len(series.times_us))
                },
            )
            for rank, series in self.record.read(metric, after_us, until_us).items()
        }


@dataclass(frozen=True)
class _Found:
    """Series that were read from Prometheus."""

    series: Mapping[str, Mapping[str, Series]]

    @property
    def metrics(self) -> Sequence[str]:
        return sorted(self.series)

    def read(self, metric: str, after_us: int, until_us: int) -> Mapping[str, Series]:
        return self.series[metric]


def _within(stack: ExitStack, series: NamedSeries) -> NamedSeries:
    """Yield series, then close what they are read from."""
    with stack:
        yield from series


def _series_of(
    records: Sequence[SeriesSource],
    selection: Selection,
    figures: containers.Figures | tuple[()] = (),
) -> NamedSeries:
    """Yield what is selected of records together, and of figures that were scraped."""
    scraped = dict(figures)
    metrics = {metric for record in records for metric in record.metrics}
    # In the order of the names that have a rank.
    for metric in sorted(metrics | scraped.keys(), key=lambda metric: f"{metric} @"):
        named: dict[str, list[Series]] = {}
        if metric in scraped and (parts := [*scraped[metric]()]):
            named[metric] = parts
        for record in records if metric in metrics else ():
            found = record.read(metric, selection.after_us, selection.until_us)
            for rank, series in found.items():
                if selection.wants(name := series_name(metric, rank), metric):
                    named.setdefault(name, []).append(series)
        for name in sorted(named):
            chunks = selection.apply(name, merge(named[name]))
            if (first := next(chunks, None)) is not None:
                yield name, chain([first], chunks)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _pods_in(table: type[Any]) -> set[str]:
    """Return the pods that own rows of a table."""
    prefix = pod_owner("")
    found = table.select(table.owner).where(table.owner.startswith(prefix)).distinct()
    return {row.owner.removeprefix(prefix) for row in found}
