"""Making columns by hand, in seconds after the start of a run."""

from collections.abc import Mapping

from master.reading.columns import Column, Columns

START = 1_700_000_000.0
"""When the run of such columns started, in Unix seconds."""


def at_us(seconds: float) -> int:
    """Return microseconds since 1970 of a time after the start."""
    return round((START + seconds) * 1e6)


def column(values: Mapping[float, float]) -> Column:
    """Return the column of values by second."""
    return Column([at_us(seconds) for seconds in values], [float(v) for v in values.values()])


def columns(**series: Mapping[float, float]) -> Columns:
    """Return the columns of series; ``acc_0`` is ``acc`` of rank 0, and ``acc`` of no rank."""
    found = {}
    for name, values in series.items():
        metric, _, rank = name.rpartition("_")
        found[(metric, rank) if rank.isdecimal() else (name, "")] = column(values)
    return found
