"""Reading a run's or a pod's series: choose, fetch from every place, merge, thin out."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain
from typing import Any

from master.models import KeptSample, Pod, Rank, Run, Series, Stream, pod_owner, run_owner
from master.reading import containers, stored
from master.reading.delivered import DeliveredReader
from master.reading.points import Pieces, Read, merge
from master.reading.promql import PrometheusClient
from master.reading.selection import Selection
from master.recording.samples import series_name

NamedSeries = Iterator[tuple[str, Pieces]]
"""Series in order of their names, none of them empty; each is read before the next."""


@dataclass(frozen=True)
class SeriesReader:
    """Reads series from Prometheus, from samples that wait for it, and from kept samples.

    What it returns raises ``PrometheusError``, maybe in the middle, if Prometheus gives no answer
    or has lost samples.
    """

    prometheus: PrometheusClient
    _checked: dict[object, float] = field(default_factory=dict)

    def run(self, run_id: int, selection: Selection) -> NamedSeries:
        """Yield a run's series: ``train_loss @ 0`` for a rank's, else ``train_loss``."""
        return self._read(run_owner(run_id), (), selection)

    def pod(self, pod: str, selection: Selection) -> NamedSeries:
        """Yield a pod's series: resource figures from the exporter, and posted samples."""
        for _, figures in containers.read(self.prometheus, [pod], selection, _now_ms()):
            yield from self._read(pod_owner(pod), figures, selection)

    def pods(self, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each known pod with its series, in order of their names."""
        pods = sorted({pod.name for pod in Pod.select(Pod.name)} | _pods_in(Stream))
        posted = _posted_pods(selection.names)
        for pod, figures in containers.read(self.prometheus, pods, selection, _now_ms()):
            # Most pods have nothing but figures: the database is not asked about each.
            owner = pod_owner(pod) if pod in posted else None
            yield pod, self._read(owner, figures, selection)

    def pods_of(self, run: Run, selection: Selection) -> Iterator[tuple[str, NamedSeries]]:
        """Yield each pod of a run with its series during the run."""
        during = selection.within(
            round(run.created_at * 1e6), round((run.finished_at or time.time()) * 1e6)
        )
        ranks = Rank.select(Rank.worker).where(Rank.run == run.id).distinct()
        for pod in sorted(rank.worker for rank in ranks):
            yield pod, self.pod(pod, during)

    def _read(
        self, owner: str | None, figures: Iterable[tuple[str, Read]], selection: Selection
    ) -> NamedSeries:
        """Yield an owner's series, and the figures that were scraped of it."""
        reads: dict[str, list[Read]] = {}
        # The database first: a sample that is delivered meanwhile is then read as waiting, and
        # lies behind what is read from Prometheus.
        found = stored.load(owner, selection.metrics) if owner else None
        if found is not None:
            keys = [key for key in found.keys if selection.wants(series_name(*key), key[0])]
            delivered = DeliveredReader(self.prometheus, found, selection, self._checked).read(keys)
            for key in sorted(keys):
                read = partial(found.merge, key, delivered.get(key), selection.after_us)
                reads.setdefault(series_name(*key), []).append(read)
        for name, figure in figures:
            reads.setdefault(name, []).append(figure)
        for name in sorted(reads):
            pieces = selection.apply(partial(_merge, reads[name], selection))
            if (first := next(pieces, None)) is not None:
                yield name, chain([first], pieces)
        if found is not None:
            found.check()


def _merge(reads: Sequence[Read], selection: Selection) -> Pieces:
    """Merge series of one name, and limit them to the selected time."""
    for piece in reduce(merge, [read() for read in reads]):
        if points := piece.between(selection.after_us, selection.until_us):
            yield points


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _posted_pods(names: Sequence[str]) -> set[str]:
    """Return the pods with posted samples; with names, those that may have samples of them."""
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
