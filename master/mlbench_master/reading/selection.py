"""Choosing points of a series: by time, the last ones, or averages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mlbench.contract.series import format_value, split_name
from mlbench.evaluation.timeline import Lineage
from mlbench_master import timestamps
from mlbench_master.reading.points import Chunks, Points, Series, to_points
from mlbench_master.recording.blocks import Note, texts_among

NamedSamples = Iterator[tuple[str, Series]]
"""Series in order of their names, none of them empty."""
NamedSeries = Iterator[tuple[str, Chunks]]
"""Points of series in order of their names, none of them empty; each is read before the next."""

# Times before and after every time that the API can return.
BEFORE_ALL_US = timestamps.EARLIEST_US - 1
AFTER_ALL_US = timestamps.LATEST_US + 1
# Points of a chunk, so that the text of an answer is never in memory as a whole.
_CHUNK = 40_000


@dataclass(frozen=True, slots=True)
class Selection:
    """The series and points that a reader wants."""

    after_us: int = BEFORE_ALL_US
    """Only points later than this."""
    until_us: int = AFTER_ALL_US
    """Only points up to this."""
    names: tuple[str, ...] = ()
    """Only series of these names, or of these metrics with any rank; empty for all."""
    summarize: int | None = None
    """At most so many points of each series: averages of equally many points, with extremes."""
    last_n: int | None = None
    """Maximum number of points per series: the newest ones."""
    with_added: bool = False
    """Whether to include samples that were posted for a run after its end."""
    with_usage: bool = True
    """Whether to include the resource usage of pods, which only Prometheus has."""
    lineage: Lineage | None = None
    """Only what is on the line of a restarted run, or what is not; None: all of it."""
    is_in_lineage: bool = True

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that the names may stand for; empty for all."""
        return frozenset(metric for name in self.names for metric in (name, split_name(name)[0]))

    @property
    def rank(self) -> str:
        """The rank of all names, if it is the same; else empty."""
        ranks = {split_name(name)[1] for name in self.names}
        return ranks.pop() if len(ranks) == 1 else ""

    def among(self, metrics: Iterable[str]) -> list[str]:
        """Return the metrics of which the selection may include series."""
        wanted = self.metrics
        return [metric for metric in metrics if not wanted or metric in wanted]

    def wants(self, *names: str) -> bool:
        """Check if the selection includes a series with any of these names."""
        return not self.names or any(name in self.names for name in names)

    def within(self, first_us: int, last_us: int) -> "Selection":
        """Limit the selection to a time."""
        return replace(
            self, after_us=max(self.after_us, first_us - 1), until_us=min(self.until_us, last_us)
        )

    def cut(self, name: str, series: Series) -> Series:
        """Return the samples of a series in the selected time and lineage."""
        first, end = np.searchsorted(series.times_us, [self.after_us, self.until_us], "right")
        series = series.part(int(first), int(end))
        if self.lineage is not None:
            times = series.times_us.tolist()
            parts = self.lineage.runs(split_name(name)[1], times)
            wanted = [np.arange(a, b) for a, b, is_on in parts if is_on == self.is_in_lineage]
            series = series.take(np.concatenate([np.empty(0, np.int64), *wanted]))
        return series

    def points(self, series: Series) -> Chunks:
        """Yield all points of a series, averages of them, or the last ones."""
        count = len(series)
        size = -(-count // self.summarize) if self.summarize else 1
        if size > 1:
            averages = -(-count // size)
            omitted = max(0, averages - (self.last_n or averages))
            yield _average(series.part(omitted * size, count), size)
            return
        start = max(0, count - (self.last_n or count))
        for at in range(start, count, _CHUNK):
            yield to_points(series.part(at, min(at + _CHUNK, count)))


def _average(series: Series, size: int) -> Points:
    """Return a point for each ``size`` samples: the average of their numbers, else the last text.

    It has the time of the first one, and the extremes of the finite numbers.
    """
    times, values = series.times_us, series.values
    starts = np.arange(0, len(times), size)
    is_text = np.zeros(len(times), bool)
    is_text[texts_among(series.notes)] = True
    counts = np.add.reduceat(~is_text, starts)
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        # Divided first: the sum of finite numbers may be infinite.
        shares = np.where(is_text, 0.0, values) / np.repeat(counts, np.diff([*starts, len(times)]))
        means = np.add.reduceat(shares, starts)
        sums = np.add.reduceat(np.where(is_text, 0.0, values), starts)
        means = np.where(np.isfinite(sums), sums / counts, means)
    lows = np.minimum.reduceat(np.where(finite, values, np.inf), starts)
    highs = np.maximum.reduceat(np.where(finite, values, -np.inf), starts)
    texts: list[str] = []
    points_at: list[int] = []
    notes = {}
    of_group: dict[int, list[int]] = {}
    for i in sorted(series.notes):
        of_group.setdefault(i // size, []).append(i)
    for group, start in enumerate(starts.tolist()):
        noted = of_group.get(group, [])
        if counts[group]:
            at, text = start, format_value(float(means[group]))
            note = Note(
                cumulative=series.notes[start].cumulative if start in series.notes else None,
                added=any(series.notes[i].added for i in noted),
            )
            is_single = min(size, len(times) - start) == 1
            if lows[group] < highs[group] or (not is_single and lows[group] == highs[group]):
                extremes = format_value(float(lows[group])), format_value(float(highs[group]))
                note = note._replace(minimum=extremes[0], maximum=extremes[1])
        else:
            at = noted[-1]
            last = series.notes[at]
            text, note = last.text or "", last._replace(text=None)
        points_at.append(at)
        texts.append(text)
        if note != Note():
            notes[group] = note
    return Points(times[points_at], texts, notes)
