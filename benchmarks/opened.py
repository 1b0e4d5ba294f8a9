"""Reading an archive of 25 million values as one Arrow table, with step and epoch."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random

import mlbench
from benchmarks.measure import Figure, alternate, timed
from mlbench import archive
from mlbench.archive import Piece, SeriesName
from tests.support.results import make_run

_SERIES, _VALUES = 25, 1_000_000
_PIECE = 4096


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the seconds that a table of all values takes, once its libraries are imported."""
    file = folder / f"large{archive.SUFFIX}"
    random = Random(1)  # noqa: S311 - no secret
    times = array("q", (1_760_000_000_000_000 + 10_000 * i for i in range(_VALUES)))
    steps = array("d", map(float, range(_VALUES)))
    noise = array("d", (random.random() for _ in range(_VALUES)))
    run = make_run(id=1, name="large")
    series = [(SeriesName("step", "0"), _pieces(times, steps))]
    series += [(SeriesName(f"m{i}", "0"), _pieces(times, noise)) for i in range(_SERIES - 1)]
    archive.write(file, {archive.RUN: {"run": run.to_fields()}}, series)
    opening = {"25 million values as one table": lambda: timed(lambda: mlbench.open(file).table())}
    yield from alternate(7, "s", opening)


def _pieces(times: "array[int]", values: "array[float]") -> Iterator[Piece]:
    for i in range(0, len(times), _PIECE):
        yield Piece(times[i : i + _PIECE], values[i : i + _PIECE])
