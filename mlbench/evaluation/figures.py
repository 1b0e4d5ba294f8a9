"""The figures of a run that are stored with it at its end, for lists and for Prometheus."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from math import ceil, isfinite
from typing import Any

from mlbench.archive import Archive, SeriesName
from mlbench.contract.records import Outcome
from mlbench.contract.results import Curve, Result

_CURVE_POINTS = 60
_MOST_METRICS = 100


@dataclass(frozen=True)
class Figures:
    """What a run's result says in numbers. Shares are from 0 to 1, times are seconds."""

    disturbed: bool = False
    outcome: Outcome | None = None
    waiting_share: float | None = None
    waiting_rank: int | None = None
    """The rank that waited most for a core that others had."""
    training_seconds: float | None = None
    samples: float | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    communication_share: float | None = None
    late_rank: int | None = None
    without_late: float | None = None
    """The speed if no rank had been late, relative to its own."""
    epochs: int | None = None
    metric: str = ""
    """The target's."""
    best_value: float | None = None
    last_value: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    goodput: Mapping[str, float] = field(default_factory=dict)
    """Seconds of all workers in each bucket."""
    curve: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Of the target's metric: seconds since the start, and values, as many as a small curve has."""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """``min``, ``max`` and ``last`` of each metric's finite values: see ``metrics_of``."""


def figures_of(result: Result) -> Figures:
    """Return the figures of a result."""
    most = max(result.disturbances, key=lambda rank: rank.waiting_share, default=None)
    late = result.stragglers
    straggler = next((r for r in late.ranks if r.rank == late.named), None) if late else None
    same: dict[str, Any] = {
        field.name: _finite(getattr(result, field.name, None)) for field in fields(Figures)
    }
    others = {
        "disturbed": bool(result.disturbed),
        "waiting_rank": most.rank if most else None,
        "late_rank": straggler.rank if straggler else None,
        "without_late": straggler.times_as_fast if straggler else None,
        "metric": result.target.metric if result.target else "",
        "goodput": result.goodput.seconds if result.goodput else {},
        "curve": _thin(result.curve) if result.curve else ((), ()),
        "metrics": {},
    }
    return Figures(**(same | others))


def metrics_of(archive: Archive) -> dict[str, dict[str, float]]:
    """Return the extremes of what the first rank of a run has recorded, of up to 100 metrics."""
    first: dict[str, SeriesName] = {}
    of_run = (name for name in archive.series if not name.pod)
    for name in sorted(of_run, key=lambda name: (name.metric, len(name.rank), name.rank)):
        first.setdefault(name.metric, name)
    extremes = {}
    for metric, name in list(first.items())[:_MOST_METRICS]:
        pieces = sorted(archive.read(name), key=lambda piece: piece.times_us[:1])
        values = list(filter(isfinite, chain.from_iterable(piece.values for piece in pieces)))
        if values:
            extremes[metric] = {"min": min(values), "max": max(values), "last": values[-1]}
    return extremes


def _thin(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return few points of a curve, its last one too, to five digits."""
    pairs = zip(curve.wall_seconds, curve.values, strict=True)
    points = [(_short(at), _short(one)) for at, one in pairs if one is not None and isfinite(one)]
    step = ceil(len(points) / _CURVE_POINTS) or 1
    thin = points[::-1][::step][::-1]
    return tuple(at for at, _ in thin), tuple(value for _, value in thin)


def _short(number: float) -> float:
    return float(f"{number:.5g}")


def _finite(value: object) -> object:
    """Return a value that JSON has: no NaN, and no infinity."""
    return None if isinstance(value, float) and not isfinite(value) else value
