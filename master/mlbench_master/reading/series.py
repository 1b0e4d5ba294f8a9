"""Reading series of runs and pods: from Prometheus if it has them all, else from the record."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from mlbench.contract import names
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
from mlbench_master.reading import containers, windows
from mlbench_master.reading.points import Series, merge
from mlbench_master.reading.promql import PrometheusClient, answer_or_none, select
from mlbench_master.reading.record import LiveRecord, Record, SealedRecord
from mlbench_master.reading.selection import NamedSamples, NamedSeries, Selection
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.reading.windows import Span
from mlbench_master.recording.blocks import Note
from mlbench_master.recording.remote_write import FUTURE_MS

Source = Literal["prometheus", "record"]
_Read = Callable[[str, int, int], Mapping[str, Series]]
"""Returns the samples of a metric between two times by rank, as ``Record.read`` does."""
_Source = tuple[Iterable[str], _Read]
"""The metrics of a source, and the function that reads them."""

# A larger answer of Prometheus is read from the record, which takes a tenth of the time.
_MAX_FROM_PROMETHEUS = 200_000
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
            record = stack.enter_context(self.record(run, selection))
            sources: list[_Source] = [(record.metrics, record.read)]
            if selection.with_added and run.added is not None:
                added = stack.enter_context(self.added(run, selection))
                sources.append((added.metrics, partial(_read_added, added)))
            yield from _points_of(_samples_of(sources, selection), selection)

    def published(self, run: Run, selection: Selection) -> tuple[Source, NamedSeries]:
        """Return a run's series, from Prometheus if it has all of them, else from the record."""
        if run.origin or (selection.with_added and run.added is not None):
            return "record", self.run(run.id, selection)
        with ExitStack() as stack:
            record = stack.enter_context(self.record(run, selection))
            metrics = selection.among(record.metrics)
            found = self._find_in_prometheus(run, record, metrics)
            source = (metrics, record.read) if found is None else (found, lambda m, *_: found[m])
            series = _points_of(_samples_of([source], selection), selection)
            if found is None:
                return "record", _within(stack.pop_all(), series)
            return "prometheus", series

    def _find_in_prometheus(
        self, run: Run, record: Record, metrics: Sequence[str]
    ) -> Mapping[str, Mapping[str, Series]] | None:
        """Return the series of metrics by metric and rank.

        None if Prometheus does not answer, or does not have just the samples of these metrics that
        the record says were sent.
        """
        expected = {metric: record.in_prometheus(metric) for metric in metrics}
        counts = [count for count in expected.values() if count is not None]
        if len(counts) < len(metrics) or not 0 < sum(counts) <= _MAX_FROM_PROMETHEUS:
            return None
        others = {metric: record.others(metric) for metric in metrics}
        # A query names at most 50 metrics; for more, it reads the series of all.
        among = {"metric": metrics} if len(metrics) <= 50 else {}
        selector = select({"__name__": names.RUN_METRIC, "run_id": str(run.id)}, among)
        ended_at = time.time() if run.finished_at is None else run.finished_at
        span = Span(round(run.created_at * 1000) - PAST_MS, round(ended_at * 1000) + FUTURE_MS)
        results = answer_or_none(lambda: windows.read_at_once(self.prometheus, selector, span))
        if results is None:
            return None
        found: dict[str, dict[str, Series]] = {metric: {} for metric in metrics}
        for result in results:
            by_rank = found.get(result.labels["metric"])
            if by_rank is not None:
                by_rank[result.labels.get("rank", "")] = windows.to_series(result, span)
        for metric, by_rank in found.items():
            if sum(map(len, by_rank.values())) != expected[metric]:
                return None
            # What Prometheus cannot hold by its nature, such as texts.
            for rank, series in others[metric].items():
                by_rank[rank] = merge([by_rank[rank], series]) if rank in by_rank else series
        return found

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
        return _points_of(self._samples_of_pod(pod, selection), selection)

    def _samples_of_pod(self, pod: str, selection: Selection) -> NamedSamples:
        for _, figures in containers.read(self.prometheus, [pod], selection, _now_ms()):
            record = LiveRecord(pod_owner(pod), selection)
            yield from _samples_of([(record.metrics, record.read)], selection, figures)

    def pods(self, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each known pod with its series, in order of their names."""
        posted = _pods_in(Stream) | _pods_in(Block)
        pods = sorted({pod.name for pod in Pod.select(Pod.name)} | posted)
        for pod, figures in containers.read(self.prometheus, pods, selection, _now_ms()):
            # Most pods have nothing but figures: the database is not asked about each.
            records = [LiveRecord(pod_owner(pod), selection)] if pod in posted else []
            sources = [(record.metrics, record.read) for record in records]
            yield pod, _points_of(_samples_of(sources, selection, figures), selection)

    def pods_of(self, run: Run, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each pod of a run with its series during the run."""
        for pod, samples in self.samples_of_pods(run, selection):
            yield pod, _points_of(samples, selection)

    def samples_of_pods(self, run: Run, selection: Selection) -> Iterator[tuple[str, NamedSamples]]:
        """Yield each pod of a run with the samples of its series during the run."""
        during = selection.within(
            round(run.created_at * 1e6), round((run.finished_at or time.time()) * 1e6)
        )
        with ExitStack() as stack:
            archive = stack.enter_context(self.archives.open(run.archive)) if run.archive else None
            for pod in run.pods:
                if archive is not None:
                    record = SealedRecord(archive, pod)
                    yield pod, _samples_of([(record.metrics, record.read)], during)
                else:
                    yield pod, self._samples_of_pod(pod, during)


def _read_added(record: Record, metric: str, after_us: int, until_us: int) -> Mapping[str, Series]:
    """Read samples of a record that all arrived after the end of their run."""
    found = {}
    for rank, series in record.read(metric, after_us, until_us).items():
        notes = {i: series.notes.get(i, Note())._replace(added=True) for i in range(len(series))}
        found[rank] = replace(series, notes=notes)
    return found


def _within(stack: ExitStack, series: NamedSeries) -> NamedSeries:
    """Yield series, then close what they are read from."""
    with stack:
        yield from series


def _points_of(samples: NamedSamples, selection: Selection) -> NamedSeries:
    return ((name, selection.points(series)) for name, series in samples)


def _samples_of(
    sources: Sequence[_Source],
    selection: Selection,
    figures: Mapping[str, Callable[[], Series]] = MappingProxyType({}),
) -> NamedSamples:
    """Yield what is selected of several sources together, and of figures that were scraped."""
    readers: dict[str, list[_Read]] = {}
    for metrics, reader in sources:
        for metric in selection.among(metrics):
            readers.setdefault(metric, []).append(reader)

    # A function, so that the samples of one metric are freed before the next are read.
    def samples_of(metric: str) -> NamedSamples:
        named: dict[str, list[Series]] = {}
        if metric in figures:
            named[metric] = [figures[metric]()]
        for read in readers.get(metric, ()):
            by_rank = read(metric, selection.after_us, selection.until_us)
            for rank, series in by_rank.items():
                if selection.wants(name := series_name(metric, rank), metric):
                    named.setdefault(name, []).append(series)
        for name in sorted(named):
            series = selection.cut(name, merge(named[name]))
            if len(series):
                yield name, series

    # In the order of the names that have a rank.
    for metric in sorted(readers.keys() | figures.keys(), key=lambda metric: f"{metric} @"):
        yield from samples_of(metric)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _pods_in(table: type[Any]) -> set[str]:
    """Return the pods that own rows of a table."""
    prefix = pod_owner("")
    found = table.select(table.owner).where(table.owner.startswith(prefix)).distinct()
    return {row.owner.removeprefix(prefix) for row in found}
