"""Summary metrics of a run: the figures that are stored with the run at its end."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil, inf, isfinite
from typing import Any

from mlbench.archive import Archive, SeriesName
from mlbench.contract.records import Outcome
from mlbench.contract.results import Result


@dataclass(frozen=True)
class SummaryMetrics:
    """Figures of a run that are stored with it at its end, for lists and for Prometheus.

    Shares are from 0 to 1, and times are seconds.
    """

    disturbed: bool = False
    outcome: Outcome | None = None
    contention_share: float | None = None
    contention_rank: int | None = None
    """Rank with the highest CPU contention."""
    training_seconds: float | None = None
    samples: float | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    communication_share: float | None = None
    late_rank: int | None = None
    """The straggler; None without one."""
    without_late: float | None = None
    """Speedup if the straggler alone had been on time; None without a straggler."""
    epochs: int | None = None
    metric: str = ""
    """Metric of the target; empty without one."""
    best_value: float | None = None
    last_value: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    goodput: Mapping[str, float] = field(default_factory=dict)
    """Seconds of all workers in each bucket."""
    goodput_share: float | None = None
    curve: tuple[tuple[Any, ...], ...] = ((), ())
    """Seconds since the start, values of the target's metric, and training seconds.

    Up to about 60 points. Earlier versions stored no training seconds.
    """
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """``min``, ``max`` and ``last`` of the finite values of each metric."""


def summary_metrics_of(result: Result) -> SummaryMetrics:
    """Return the figures of a result."""
    most = max(result.interferences, key=lambda rank: rank.contention_share, default=None)
    late = result.stragglers
    straggler = next((r for r in late.ranks if r.rank == late.named), None) if late else None
    # The curve has about 60 points, including its last one, with five digits.
    curve = result.curve
    points = (
        [
            tuple(None if number is None else float(f"{number:.5g}") for number in point)
            for point in zip(curve.wall_seconds, curve.values, curve.training_seconds, strict=True)
            if point[1] is not None and isfinite(point[1])
        ]
        if curve
        else []
    )
    thin = points[::-1][:: ceil(len(points) / 60) or 1][::-1]
    figures: dict[str, Any] = {
        field.name: getattr(result, field.name, None) for field in fields(SummaryMetrics)
    }
    # JSON has neither NaN nor infinity.
    for name, value in figures.items():
        if isinstance(value, float) and not isfinite(value):
            figures[name] = None
    figures |= {
        "disturbed": bool(result.disturbed),
        "contention_rank": most.rank if most else None,
        "late_rank": straggler.rank if straggler else None,
        "without_late": straggler.speedup_without if straggler else None,
        "metric": result.target.metric if result.target else "",
        "goodput": result.goodput.seconds if result.goodput else {},
        "goodput_share": result.goodput.share if result.goodput else None,
        "curve": tuple(zip(*thin, strict=True)) or ((), ()),
        "metrics": {},
    }
    return SummaryMetrics(**figures)


def metrics_of(archive: Archive) -> dict[str, dict[str, float]]:
    """Return the extremes and the last value of up to 100 metrics of the first rank of a run."""
    first: dict[str, SeriesName] = {}
    of_run = (name for name in archive.series if not name.pod)
    for name in sorted(of_run, key=lambda name: (name.metric, len(name.rank), name.rank)):
        first.setdefault(name.metric, name)
    extremes = {}
    for metric, name in list(first.items())[:100]:
        # Pieces overlap: values that Prometheus cannot hold, and late ones, are in others.
        low, high, last, last_us = inf, -inf, inf, -1 << 63
        for piece in archive.read(name):
            for time_us, value in zip(piece.times_us, piece.values, strict=True):
                if isfinite(value):
                    low, high = min(low, value), max(high, value)
                    if time_us >= last_us:
                        last, last_us = value, time_us
        if isfinite(last):
            extremes[metric] = {"min": low, "max": high, "last": last}
    return extremes
