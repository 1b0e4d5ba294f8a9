"""The numbers of series as columns, for computing with them."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mlbench.contract.series import SeriesKey, series_name


@dataclass(frozen=True, slots=True)
class Column:
    """The numbers of a series in order of time, NaN and infinities among them."""

    times_us: Sequence[int]
    values: Sequence[float]

    def first_from(self, time_us: int) -> int:
        """Return the position of the first number at a time or later; the length if none is."""
        return bisect_left(self.times_us, time_us)

    def at(self, time_us: int) -> float:
        """Return the number at a time, between two interpolated; the first or last outside."""
        times_us, values = self.times_us, self.values
        after = bisect_right(times_us, time_us)
        if not 0 < after < len(times_us):
            return values[-1] if after else values[0]
        began_us, began = times_us[after - 1], values[after - 1]
        share = (time_us - began_us) / (times_us[after] - began_us)
        return began + (values[after] - began) * share


Columns = Mapping[SeriesKey, Column]
"""By metric and rank; none is empty."""

Read = Callable[[Collection[str], int], Columns]
"""Reads the series of these names, or of these metrics with any rank, from a time on."""

ByRank = Mapping[str, Column]
"""The columns of a metric in order of ranks; the one without a rank comes first."""


def by_rank(columns: Columns, metric: str) -> ByRank:
    """Return the columns of a metric, or of the one series of this name, in order of ranks."""
    found = {key[1]: one for key, one in columns.items() if metric in (key[0], series_name(*key))}
    # Ranks are nearly always numbers: 2 comes before 10.
    return {rank: found[rank] for rank in sorted(found, key=lambda rank: (len(rank), rank))}


def finite_by_rank(columns: Columns, metric: str) -> ByRank:
    """Return the finite numbers of a metric, in order of ranks."""
    found = {rank: _finite(column) for rank, column in by_rank(columns, metric).items()}
    return {rank: column for rank, column in found.items() if column.times_us}


def _finite(column: Column) -> Column:
    kept = [i for i, value in enumerate(column.values) if math.isfinite(value)]
    if len(kept) == len(column.values):
        return column
    return Column([column.times_us[i] for i in kept], [column.values[i] for i in kept])
