"""Pressure of a machine: time in which some process waited for cores, memory or storage.

The kernel counts it (PSI, Documentation/accounting/psi.rst) if it is built with it. Also in a
container, /proc/pressure is about the whole machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlbench_exporter import exported_series as series
from mlbench_exporter.exported_series import ExportedSample, SourceError

PRESSURE = Path("/proc/pressure")


def is_counted() -> bool:
    """Return whether the kernel counts pressure. If that is disabled, reading the files fails."""
    try:
        return bool((PRESSURE / "cpu").read_text())
    except OSError:
        return False


@dataclass(frozen=True)
class PressureSource:
    """Reads the totals of this machine from /proc/pressure."""

    name = "pressure"

    node: str
    folder: Path = PRESSURE

    def read(self) -> Iterator[ExportedSample]:
        """Yield the time in which some process waited, by resource."""
        for resource in ("cpu", "memory", "io"):
            # some avg10=0.00 avg60=0.00 avg300=0.00 total=8291540043
            line = (self.folder / resource).read_text().partition("\n")[0]
            scope, _, microseconds = line.partition(" total=")
            if not (scope.startswith("some ") and microseconds.isdecimal()):
                file = self.folder / resource
                raise SourceError(f"{file}: must begin with `some` and its total (got {line!r})")
            yield ExportedSample(
                series.NODE_PRESSURE, (self.node, resource), int(microseconds) / 1e6
            )
