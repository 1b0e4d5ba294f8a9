"""Reading a run's or a pod's samples: from Prometheus, from what still waits, from what is kept."""

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

from master.models import KeptSample, Pod, Series, Stream, pod_owner, run_owner
from master.reading import containers, delivered, stored
from master.reading.completeness import Memory
from master.reading.points import Pieces, Points, merge
from master.reading.promql import PrometheusClient
from master.reading.selection import Read, Selection
from master.recording.samples import SeriesKey, series_name

NamedSeries = Iterator[tuple[str, Pieces]]
"""Series in order of their names, none of them empty; each is read before the next."""


@dataclass(frozen=True)
class SeriesReader:
    """Merges all places where a sample can be, in order of time."""

    prometheus: PrometheusClient
    _whole: Memory = field(default_factory=Memory)

    def run(self, run_id: int, selection: Selection) -> NamedSeries:
        """Yield a run's series: ``train_loss @ 0`` for a rank's, else ``train_loss``.

        Raises:
            PrometheusError: Prometheus gives no answer, or has lost samples; maybe in the middle of
                it all.
        """
        return _select(_unite(self._recorded(run_owner(run_id), selection)), selection)

    def pod(self, pod: str, selection: Selection) -> NamedSeries:
        """Yield a pod's series: resource figures from the exporter, and posted samples.

        Raises:
            PrometheusError: Prometheus gives no answer, or has lost samples; maybe in the middle of
                it all.
        """
        found = heapq.merge(
            self._recorded(pod_owner(pod), selection),
            containers.read(self.prometheus, pod, selection, time.time_ns() // 1_000_000),
            key=itemgetter(0),
        )
        return _select(_unite(found), selection)

    def pods(self, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each known pod, in order of their names, with its series as ``pod`` does.

        Raises:
            PrometheusError: Prometheus gives no answer, or has lost samples; maybe in the middle of
                it all.
        """
        pods = sorted({pod.name for pod in Pod.select(Pod.name)} | _pods_in(Stream))
        posted = _posted_pods(selection.names)
        now_ms = time.time_ns() // 1_000_000
        for pod, figures in containers.read_all(self.prometheus, pods, selection, now_ms):
            # Most pods have nothing but their figures: the database is not asked about each.
            recorded = self._recorded(pod_owner(pod), selection) if pod in posted else ()
            found = heapq.merge(recorded, figures, key=itemgetter(0))
            yield pod, _select(_unite(found), selection)

    def _recorded(self, owner: str, selection: Selection) -> Iterator[tuple[str, Read]]:
        # The database first: a sample on its way from there to Prometheus is then still among
        # those that wait, and left out of what Prometheus says.
        found = stored.look(owner, selection.metrics)
        keys = sorted((series_name(*key), key) for key in found.keys)
        wanted = [(name, key) for name, key in keys if selection.wants(name, key[0])]
        from_prometheus = delivered.read(
            self.prometheus, found, [key for _, key in wanted], selection, self._whole
        )
        for name, key in wanted:
            yield name, partial(_merge, found, key, from_prometheus.get(key), selection)
        found.check()


def _merge(
    found: stored.Stored, key: SeriesKey, from_prometheus: Read | None, selection: Selection
) -> Pieces:
    pieces: Pieces = iter(())
    if from_prometheus is not None:
        pieces = (found.with_details(key, points) for points in from_prometheus())
    if key in found.kept:
        pieces = merge(pieces, found.read_kept(key, selection.after_us))
    if key in found.waiting:
        pieces = merge(pieces, found.waiting[key].read())
    for piece in pieces:
        if points := piece.between(selection.after_us, selection.until_us):
            yield points


def _unite(series: Iterable[tuple[str, Read]]) -> Iterator[tuple[str, Read]]:
    """Yield series of one name as one."""
    for name, same in groupby(series, key=itemgetter(0)):
        yield name, partial(_merge_all, [read for _, read in same])


def _merge_all(reads: list[Read]) -> Pieces:
    return reduce(merge, [read() for read in reads])


def _select(series: Iterable[tuple[str, Read]], selection: Selection) -> NamedSeries:
    for name, read in series:
        pieces = selection.apply(read)
        first = next(pieces, None)
        if first is not None:
            yield name, _chain(first, pieces)


def _chain(first: Points, rest: Pieces) -> Pieces:
    yield first
    yield from rest


def _posted_pods(names: Sequence[str]) -> set[str]:
    """Return the pods that samples were posted for, maybe of these metrics; of any for none."""
    if not names:
        return _pods_in(Stream)
    # In the order in which samples move on, so that none is missed.
    waiting = _pods_in(Stream, Stream.delivered < Stream.size)
    moved_on = (_pods_in(table, table.metric.in_(names)) for table in (KeptSample, Series))
    return waiting.union(*moved_on)


def _pods_in(table: type[Any], *conditions: Any) -> set[str]:
    """Return the pods that own rows of a table."""
    prefix = pod_owner("")
    found = table.select(table.owner).where(table.owner.startswith(prefix), *conditions).distinct()
    return {row.owner.removeprefix(prefix) for row in found}
