"""Points of a series as columns, which are read, merged and written in chunks."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

# About the most points of a chunk, so that memory does not grow with the answer.
PIECE = 40_000


class Annotation(NamedTuple):
    """More about a value: what its client posted along with it, or extremes of an average."""

    cumulative: bool | None = None
    metadata: Any = None
    minimum: str | None = None
    """The smallest finite number of an average, as ``maximum`` is the largest."""
    maximum: str | None = None
    added: bool = False
    """Whether it was posted after the end of its run."""


NO_ANNOTATION = Annotation()


class StoredPoint(NamedTuple):
    """A value at a time. Numbers are written as Prometheus writes them."""

    time_us: int
    value: str
    note: Annotation = NO_ANNOTATION


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one series in order of time, as columns of the same length."""

    times_us: Sequence[int]
    values: Sequence[str]
    annotations: Mapping[int, Annotation] = field(default_factory=dict)
    """By position."""
    are_numbers: bool = False
    """Whether it is known that all values are numbers."""

    def __len__(self) -> int:
        return len(self.times_us)

    def __iter__(self) -> Iterator[StoredPoint]:
        for i, (time_us, value) in enumerate(zip(self.times_us, self.values, strict=True)):
            yield StoredPoint(time_us, value, self.annotations.get(i, NO_ANNOTATION))

    def part(self, start: int, end: int) -> "Points":
        """Return the points from position ``start`` to before ``end``."""
        if start <= 0 and end >= len(self):
            return self
        annotations = {i - start: note for i, note in self.annotations.items() if start <= i < end}
        times_us, values = self.times_us[start:end], self.values[start:end]
        return Points(times_us, values, annotations, self.are_numbers)

    def between(self, after_us: int, until_us: int) -> "Points":
        """Return the points later than ``after_us``, up to ``until_us``."""
        times = self.times_us
        return self.part(bisect_right(times, after_us), bisect_right(times, until_us))

    def split(self, time_us: int) -> tuple["Points", "Points"]:
        """Split into the points up to a time and the later ones."""
        middle = bisect_right(self.times_us, time_us)
        return self.part(0, middle), self.part(middle, len(self))


Chunks = Iterator[Points]

Reader = Callable[[], Chunks]
"""Reads a series from its start. It may be called again."""


def from_points(points: Iterable[StoredPoint]) -> Points:
    """Make columns of points in order of time."""
    rows = list(points)
    return Points(
        [row.time_us for row in rows],
        [row.value for row in rows],
        {i: row.note for i, row in enumerate(rows) if row.note != NO_ANNOTATION},
    )


def merge(first: Chunks, second: Chunks) -> Chunks:
    """Merge two series in order of time; at the same time, points of ``first`` come first."""
    left, right = next(first, None), next(second, None)
    while left is not None and right is not None:
        # Take the whole chunk that ends first, with the part of the other one before that end.
        if left.times_us[-1] <= right.times_us[-1]:
            earlier, right = right.split(left.times_us[-1] - 1)
            yield join([left, earlier])
            left = next(first, None)
        else:
            earlier, left = left.split(right.times_us[-1])
            yield join([earlier, right])
            right = next(second, None)
    for rest, others in ((left, first), (right, second)):
        if rest is not None:
            yield rest
            yield from others


def as_added(read: Reader) -> Chunks:
    """Read a series whose points were all posted after the end of their run."""
    for points in read():
        annotations = {
            i: points.annotations.get(i, NO_ANNOTATION)._replace(added=True)
            for i in range(len(points))
        }
        yield Points(points.times_us, points.values, annotations)


def join(parts: Sequence[Points]) -> Points:
    """Join parts in order of time; at the same time, in order of the parts."""
    parts = [part for part in parts if part]
    if len(parts) == 1:
        return parts[0]
    times = [time_us for part in parts for time_us in part.times_us]
    values = [value for part in parts for value in part.values]
    starts = accumulate((len(part) for part in parts), initial=0)
    annotations = {
        start + i: note
        for start, part in zip(starts, parts, strict=False)
        for i, note in part.annotations.items()
    }
    order = sorted(range(len(times)), key=times.__getitem__)
    return Points(
        [times[i] for i in order],
        [values[i] for i in order],
        {new: annotations[old] for new, old in enumerate(order) if old in annotations}
        if annotations
        else {},
    )
