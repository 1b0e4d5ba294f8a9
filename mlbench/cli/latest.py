"""The last values of a run's series: what the live view shows of a run that goes on."""

import math

from mlbench import names
from mlbench.client import Point, Series


def latest(series: Series, metric: str) -> float | None:
    """Return the last value of a metric at its first rank."""
    found = _by_rank(series, metric)
    return found[0][-1].number if found else None


def latest_count(series: Series, metric: str) -> int | None:
    """Return the last value of a metric that counts, such as the epoch, at its first rank."""
    value = latest(series, metric)
    return round(value) if value is not None and math.isfinite(value) else None


def samples_per_second(series: Series) -> float | None:
    """Return the training throughput over all ranks so far; nothing before the first epoch ended.

    Needs the last values of ``samples`` and ``train_seconds`` only.
    """
    samples = sum(_last_values(series, names.SAMPLES))
    seconds = _last_values(series, names.TRAIN_SECONDS)
    mean = sum(seconds) / len(seconds) if seconds else 0.0
    return samples / mean if samples and mean else None


def _last_values(series: Series, metric: str) -> list[float]:
    return [points[-1].number for points in _by_rank(series, metric)]


def _by_rank(series: Series, metric: str) -> list[list[Point]]:
    """Return a metric's points that hold numbers, rank by rank; the series of no rank first."""
    found = {
        int(rank) if rank else -1: [point for point in points if _is_number(point)]
        for name, points in series.items()
        for base, rank in [_split_name(name)]
        if base == metric
    }
    return [found[rank] for rank in sorted(found) if found[rank]]


def _split_name(name: str) -> tuple[str, str]:
    """Return metric and rank of a series; the rank is empty where it has none."""
    metric, _, rank = name.rpartition(" @ ")
    return (metric, rank) if metric and rank.isdecimal() else (name, "")


def _is_number(point: Point) -> bool:
    try:
        float(point.value)
    except ValueError:
        return False
    return True
