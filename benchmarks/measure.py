"""Repeated measurements, summed up by median and spread."""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """Repeated measurements of one thing."""

    what: str
    unit: str
    values: Sequence[float]

    @property
    def median(self) -> float:
        """Return the value in the middle."""
        return statistics.median(self.values)

    def __str__(self) -> str:
        spread = f"{_number(min(self.values))} to {_number(max(self.values))}"
        return (
            f"{self.what:<66} {_number(self.median):>9} {self.unit:<10} "
            f"({spread}, {len(self.values)} times)"
        )


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one thing is as another, by their medians."""

    what: str
    times: float

    def __str__(self) -> str:
        return f"{self.what:<66} {_number(self.times):>9} times"


def repeat(what: str, unit: str, times: int, measure: Callable[[], float]) -> Figure:
    """Measure a number of times, after once for warming up."""
    measure()
    return Figure(what, unit, [measure() for _ in range(times)])


def alternate(times: int, pairs: Sequence[tuple[str, str, Callable[[], float]]]) -> list[Figure]:
    """Measure several things in turn, so that a noisy moment meets all of them."""
    for _, _, measure in pairs:
        measure()
    rounds = [[measure() for _, _, measure in pairs] for _ in range(times)]
    return [
        Figure(what, unit, [values[i] for values in rounds])
        for i, (what, unit, _) in enumerate(pairs)
    ]


def machine() -> str:
    """Return what the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    return (
        f"{os.cpu_count()} cores, {model}, Linux {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
