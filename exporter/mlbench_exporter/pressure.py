"""The pressure of a machine: for how long some process waited for its cores, memory or disks.

The kernel counts it (PSI, Documentation/accounting/psi.rst) if it is built so. In a container too,
/proc/pressure is that of the whole machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlbench_exporter import series
from mlbench_exporter.series import Sample, SourceError

PRESSURE = Path("/proc/pressure")


def is_counted() -> bool:
    """Check whether the kernel counts it: one that was told not to refuses to read the files."""
    try:
        return bool((PRESSURE / "cpu").read_text())
    except OSError:
        return False


@dataclass(frozen=True)
class PressureSource:
    """Reads the totals of this machine."""

    name = "pressure"

    node: str
    folder: Path = PRESSURE

    def read(self) -> Iterator[Sample]:
        """Yield for how long some process waited, by resource."""
        for resource in ("cpu", "memory", "io"):
            # some avg10=0.00 avg60=0.00 avg300=0.00 total=8291540043
            line = (self.folder / resource).read_text().partition("\n")[0]
            of, _, microseconds = line.partition(" total=")
            if not (of.startswith("some ") and microseconds.isdecimal()):
                raise SourceError(f"{self.folder / resource} has no total of some (but {line!r})")
            yield Sample(series.NODE_PRESSURE, (self.node, resource), int(microseconds) / 1e6)
