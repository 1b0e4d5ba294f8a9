"""Series in memory as columns, and points, whose values are texts, as the API writes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlbench.contract.series import format_value
from mlbench_master.recording.blocks import Note, pick


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one series in order of time, as columns of the same length."""

    times_us: NDArray[np.int64]
    values: NDArray[np.float64]
    """Numbers; NaN for a text."""
    notes: Mapping[int, Note] = field(default_factory=dict)
    """Optional fields, by the position of their sample."""

    def __len__(self) -> int:
        return len(self.times_us)

    def part(self, start: int, end: int) -> "Series":
        """Return the samples from position ``start`` to before ``end``."""
        notes = {i - start: note for i, note in self.notes.items() if start <= i < end}
        return Series(self.times_us[start:end], self.values[start:end], notes)

    def take(self, positions: NDArray[np.int64]) -> "Series":
        """Return the samples at these positions, in their order."""
        notes = pick(self.notes, positions)
        return Series(self.times_us[positions], self.values[positions], notes)


def merge(parts: Sequence[Series]) -> Series:
    """Merge series in order of time; at the same time, in order of the parts."""
    if len(parts) == 1:
        return parts[0]
    start, notes = 0, {}
    for part in parts:
        notes.update({start + i: note for i, note in part.notes.items()})
        start += len(part)
    times = np.concatenate([np.empty(0, np.int64), *(part.times_us for part in parts)])
    values = np.concatenate([np.empty(0), *(part.values for part in parts)])
    return Series(times, values, notes).take(np.argsort(times, kind="stable"))


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one series in order of time, as columns of the same length."""

    times_us: NDArray[np.int64]
    values: Sequence[str]
    notes: Mapping[int, Note] = field(default_factory=dict)
    """Optional fields, by the position of their point."""

    def __len__(self) -> int:
        return len(self.times_us)


Chunks = Iterator[Points]
"""Points of one series in order of time, a part at a time."""


def to_points(series: Series) -> Points:
    """Return samples as points, whose values are texts."""
    numbers = series.values.tolist()
    values = [repr(number).removesuffix(".0") for number in numbers]
    # Elsewhere, Python writes a number as Prometheus does.
    size = np.abs(series.values)
    is_alike = (size == 0) | ((size >= 1e-4) & (size < 1e16))
    for i in np.flatnonzero(~is_alike).tolist():
        values[i] = format_value(numbers[i])
    notes = {}
    for i, note in series.notes.items():
        if note.text is not None:
            values[i] = note.text
        if note[1:] != Note()[1:]:
            notes[i] = note._replace(text=None)
    return Points(series.times_us, values, notes)
