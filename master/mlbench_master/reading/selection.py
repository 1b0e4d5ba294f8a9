"""Choosing points of a series: by time, the last ones, or averages."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from statistics import fmean
from typing import Any

from mlbench.contract.series import format_value, number_or_text, split_name
from mlbench.evaluation.timeline import Lineage
from mlbench_master import timestamps
from mlbench_master.reading.points import (
    NO_ANNOTATION,
    Annotation,
    Chunks,
    Points,
    Reader,
    StoredPoint,
    from_points,
    merge,
)

NamedSeries = Iterator[tuple[str, Chunks]]
"""Series in order of their names, none of them empty; each is read before the next."""

# Times before and after every time that the API can return.
BEFORE_ALL_US = timestamps.EARLIEST_US - 1
AFTER_ALL_US = timestamps.LATEST_US + 1


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
    """Maximum number of points per series, each an average of equally many, with extremes.

    With many series, each point averages an equal time.
    """
    last_n: int | None = None
    """Maximum number of points per series: the newest ones."""
    with_added: bool = False
    """Whether to include samples that were posted for a run after its end."""
    lineage: Lineage | None = None
    """Only what is on the line of a restarted run, or what is not; None: all of it."""
    is_in_lineage: bool = True

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that the names may stand for; empty for all."""
        return frozenset(metric for name in self.names for metric in (name, split_name(name)[0]))

    @property
    def ranks(self) -> frozenset[str]:
        """The ranks that the names stand for; empty for all."""
        ranks = frozenset(split_name(name)[1] for name in self.names)
        return frozenset() if "" in ranks else ranks

    def wants(self, *names: str) -> bool:
        """Check if the selection includes a series with any of these names."""
        return not self.names or any(name in self.names for name in names)

    def within(self, first_us: int, last_us: int) -> "Selection":
        """Limit the selection to a time."""
        return replace(
            self, after_us=max(self.after_us, first_us - 1), until_us=min(self.until_us, last_us)
        )

    def series(self, readers: Mapping[str, Sequence[Reader]]) -> NamedSeries:
        """Yield what is selected of series, each merged from one or several parts."""
        for name in sorted(readers):
            chunks = self.apply(partial(self._on_line, name, partial(self._merge, readers[name])))
            if (first := next(chunks, None)) is not None:
                yield name, chain([first], chunks)

    def _merge(self, readers: Sequence[Reader]) -> Chunks:
        """Merge series of one name, and limit them to the selected time."""
        for chunk in reduce(merge, [read() for read in readers]):
            if points := chunk.between(self.after_us, self.until_us):
                yield points

    def _on_line(self, name: str, read: Reader) -> Chunks:
        """Omit the discarded samples, or all others."""
        rank = split_name(name)[1]
        for chunk in read():
            if self.lineage is None:
                yield chunk
                continue
            for first, end, is_on in self.lineage.runs(rank, chunk.times_us):
                if first < end and is_on == self.is_in_lineage:
                    yield chunk.part(first, end)

    def apply(self, read: Reader) -> Chunks:
        """Yield the averages, or last points, of a series that has been limited to the time."""
        if self.summarize is not None and (size := -(-_count(read) // self.summarize)) > 1:
            read = partial(_averages, read, size)
        if self.last_n is not None and (surplus := _count(read) - self.last_n) > 0:
            read = partial(_skip, read, surplus)
        return read()


def _count(read: Reader) -> int:
    return sum(len(chunk) for chunk in read())


def _skip(read: Reader, surplus: int) -> Chunks:
    for chunk in read():
        if rest := chunk.part(surplus, len(chunk)):
            yield rest
        surplus = max(0, surplus - len(chunk))


@dataclass(slots=True)
class _Group:
    """Consecutive points to average."""

    size: int = 0
    numbers: int = 0
    mean: float = 0.0
    minimum: float = math.inf
    """Minimum of the finite numbers; ``maximum`` is their maximum."""
    maximum: float = -math.inf
    first_us: int = 0
    cumulative: bool | None = None
    added: bool = False
    """Whether one of them was."""
    text: StoredPoint | None = None

    def add(self, part: Points, values: Sequence[float | str]) -> None:
        if not self.size:
            self.first_us = part.times_us[0]
            self.cumulative = part.annotations.get(0, NO_ANNOTATION).cumulative
        for note in part.annotations.values():
            self.added = self.added or note.added
            if note.minimum is not None and note.maximum is not None:
                self.minimum = min(self.minimum, float(note.minimum))
                self.maximum = max(self.maximum, float(note.maximum))
        self.size += len(part)
        numbers: Sequence[Any] = values
        if not part.are_numbers:
            numbers = [value for value in values if not isinstance(value, str)]
            for i, value in enumerate(values):
                if isinstance(value, str):
                    note = part.annotations.get(i, NO_ANNOTATION)
                    self.text = StoredPoint(part.times_us[i], value, note)
        if not numbers:
            return
        self.numbers += len(numbers)
        mean = _mean(numbers)
        self.mean += (mean - self.mean) * (len(numbers) / self.numbers)
        # The mean of finite numbers is finite.
        finite = numbers if math.isfinite(mean) else [n for n in numbers if math.isfinite(n)]
        if finite:
            self.minimum = min(self.minimum, *finite)
            self.maximum = max(self.maximum, *finite)

    def point(self) -> StoredPoint:
        """Return the mean of the numbers at the time of the first; else the last text."""
        if not self.numbers:
            assert self.text is not None
            return self.text
        note = Annotation(self.cumulative, added=self.added)
        if self.minimum < self.maximum or (self.size > 1 and self.minimum == self.maximum):
            extremes = format_value(self.minimum), format_value(self.maximum)
            note = Annotation(self.cumulative, None, *extremes, self.added)
        return StoredPoint(self.first_us, format_value(self.mean), note)


def _averages(read: Reader, size: int) -> Chunks:
    """Yield one point for each ``size`` points; the last one may stand for fewer."""
    group = _Group()
    for chunk in read():
        points = []
        # Values that Prometheus wrote are numbers, so they need no check.
        to_number: Callable[[str], float | str] = float if chunk.are_numbers else number_or_text
        numbers = [*map(to_number, chunk.values)]
        start = 0
        while start < len(chunk):
            end = start + size - group.size
            group.add(chunk.part(start, end), numbers[start:end])
            if group.size == size:
                points.append(group.point())
                group = _Group()
            start = end
        if points:
            yield from_points(points)
    if group.size:
        yield from_points([group.point()])


def _mean(numbers: Sequence[float]) -> float:
    try:
        return fmean(numbers)
    except (OverflowError, ValueError):  # of sums that are infinite, or infinities of both signs
        return sum(number / len(numbers) for number in numbers)
