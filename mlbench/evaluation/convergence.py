"""MLPerf's reference convergence points: whether runs converge faster than the reference allows.

"RCP" stands for a section of MLPerf's training_rules for v6.0, "Reference Convergence Points".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, pstdev

from mlbench.evaluation.intervals import t_quantile

_LEVEL = 0.05


@dataclass(frozen=True)
class Point:
    """How many epochs the reference takes to the goal with a batch size."""

    batch_size: int
    mean: float
    deviation: float
    runs: int
    """That the test takes into account."""

    @classmethod
    def of(cls, batch_size: int, epochs: Sequence[float]) -> "Point":
        """Sum up runs; the fastest and the slowest count for neither figure ("RCP Examples").

        MLPerf's own checker takes the deviation of all runs, which is less strict.
        """
        counted = sorted(epochs)[1:-1]
        return cls(batch_size, fmean(counted), pstdev(counted), len(counted))

    def least_epochs(self, runs: int) -> float:
        """Return the least mean over so many runs that is not significantly less than this.

        RCP: by a one-sided t-test of two samples of similar variance, with p = 0.05.
        """
        quantile = t_quantile(1 - _LEVEL, self.runs + runs - 2)
        return self.mean - quantile * self.deviation * math.sqrt(1 / self.runs + 1 / runs)


def prune(points: Sequence[Point]) -> list[Point]:
    """Return the points that bound how fast the reference converges, by batch size.

    RCP: larger batches take more epochs. So a point counts for nothing if a larger batch converged
    faster, or if it is slower than the line between any two around it.
    """
    ordered = sorted(points, key=lambda point: point.batch_size)
    fastest = min(ordered, key=lambda point: point.mean)
    kept: list[Point] = []
    for point in ordered[ordered.index(fastest) :]:
        while len(kept) > 1 and _between(kept[-2], point, kept[-1].batch_size).mean < kept[-1].mean:
            kept.pop()
        kept.append(point)
    return kept


def find(points: Sequence[Point], batch_size: int) -> Point | None:
    """Return the point of a batch size, in between by interpolation; None beyond the largest.

    RCP: below the smallest it is the smallest, which is stricter.
    """
    kept = prune(points)
    if batch_size <= kept[0].batch_size:
        return kept[0]
    for below, above in pairwise(kept):
        if batch_size == above.batch_size:
            return above
        if batch_size < above.batch_size:
            return _between(below, above, batch_size)
    return None


def _between(below: Point, above: Point, batch_size: int) -> Point:
    """Interpolate; the test takes as many runs as the reference had, dropped ones too.

    So do MLPerf's checker and the example of submitter S3.
    """
    share = (batch_size - below.batch_size) / (above.batch_size - below.batch_size)
    mean, deviation = (
        low + share * (high - low)
        for low, high in ((below.mean, above.mean), (below.deviation, above.deviation))
    )
    return Point(batch_size, mean, deviation, min(below.runs, above.runs) + 2)
