"""Repeated measurements, summed up by median and spread."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Measure = Callable[[], float]


@dataclass(frozen=True)
class Figure:
    """Repeated measurements of one thing."""

    name: str
    unit: str
    values: Sequence[float]

    @property
    def median(self) -> float:
        """Return the value in the middle."""
        return statistics.median(self.values)

    def __str__(self) -> str:
        spread = f"{_number(min(self.values))} to {_number(max(self.values))}"
        return (
            f"{self.name:<66} {_number(self.median):>9} {self.unit:<10} "
            f"({spread}, {len(self.values)} times)"
        )


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one thing is as another, by their medians."""

    name: str
    times: float

    def __str__(self) -> str:
        return f"{self.name:<66} {_number(self.times):>9} times"


def alternate(times: int, unit: str, measures: Mapping[str, Measure]) -> list[Figure]:
    """Measure things in turn, so that a noisy moment meets all, after once each to warm up."""
    rounds = [[measure() for measure in measures.values()] for _ in range(1 + times)]
    return [
        Figure(name, unit, values)
        for name, values in zip(measures, zip(*rounds[1:], strict=True), strict=True)
    ]


def timed(work: Callable[[], object]) -> float:
    """Do something, and return the seconds that it took."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def cost(
    calls: int, call: Callable[[int], object], flush: Callable[[], object] = lambda: None
) -> Measure:
    """Return what measures the microseconds of a call, in a row of them and a flush at the end."""

    def call_all() -> None:
        for number in range(calls):
            call(number)
        flush()

    return lambda: timed(call_all) / calls * 1e6


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
