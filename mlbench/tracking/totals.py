"""Totals of a training process: a small file that its agent reads for each scrape.

A rank may have several processes, at once or one after the other; the agent adds up their totals.

The file has its full size from the start, so that it can be rewritten on a full disk. It outlives
the process, so that its last values are scraped.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from struct import Struct
from typing import Any, Final

from mlbench.contract.names import PHASES, Phase

STEP_BOUNDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)
"""Upper bounds of the buckets for the duration of a step, in seconds."""
_FORMAT = Struct(f"<qqddd{len(PHASES)}d{len(STEP_BOUNDS) + 1}q")
FILE_BYTES: Final = _FORMAT.size


@dataclass
class Totals:
    """Totals of a process, or of all processes of a rank."""

    steps: int = 0
    lost: int = 0
    """Number of values that could not be written to the metrics file."""
    samples: float = 0.0
    step_seconds: float = 0.0
    progress_at: float = 0.0
    """Time of the last step or start of an evaluation, in Unix seconds; 0 if there was none."""
    phase_seconds: list[float] = field(default_factory=lambda: [0.0] * len(PHASES))
    """Seconds by phase, in the order of ``PHASES``."""
    step_counts: list[int] = field(default_factory=lambda: [0] * (len(STEP_BOUNDS) + 1))
    """Number of steps in each bucket; the last bucket has no upper bound."""

    @classmethod
    def unpack(cls, *files: bytes) -> "Totals":
        """Return the sum of the totals in the contents of files, without invalid ones."""
        read = [_FORMAT.unpack(content) for content in files if len(content) == FILE_BYTES]
        valid = [numbers for numbers in read if all(isfinite(n) and n >= 0 for n in numbers)]
        if not valid:
            return cls()
        columns = [*zip(*valid, strict=True)]
        sums: list[Any] = [*map(sum, columns)]
        steps, lost, samples, seconds, _, *rest = sums
        phases, counts = rest[: len(PHASES)], rest[len(PHASES) :]
        return cls(steps, lost, samples, seconds, max(columns[4]), phases, counts)

    def pack(self) -> bytes:
        """Return the content of a file with these totals."""
        numbers = self.steps, self.lost, self.samples, self.step_seconds, self.progress_at
        return _FORMAT.pack(*numbers, *self.phase_seconds, *self.step_counts)


class TotalsFile:
    """Writes the totals of this process, in which it may record several times.

    Failed writes are ignored.
    """

    def __init__(self, path: Path) -> None:
        """Write the file in its full size."""
        self._totals = Totals()
        self._file = -1
        with suppress(OSError):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._totals = Totals.unpack(os.pread(self._file, FILE_BYTES, 0))
        self._write()

    def observe_step(self, seconds: float) -> None:
        """Add the duration of a step."""
        self._totals.step_seconds += seconds
        self._totals.step_counts[bisect_left(STEP_BOUNDS, seconds)] += 1

    def publish(self, steps: int, samples: float, phases: Mapping[Phase, float]) -> None:
        """Add the steps, samples and seconds by phase since the last call."""
        totals = self._totals
        totals.steps += steps
        totals.samples += samples
        for i, phase in enumerate(PHASES):
            totals.phase_seconds[i] += phases.get(phase, 0.0)
        if steps:
            totals.progress_at = time.time()
        self._write()

    def mark_progress(self) -> None:
        """Set the time of the last progress; an alert fires if it is long ago."""
        self._totals.progress_at = time.time()
        self._write()

    def add_lost(self, values: int) -> None:
        """Count values that could not be written."""
        self._totals.lost += values
        self._write()

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)
        self._file = -1

    def _write(self) -> None:
        with suppress(OSError):
            os.pwrite(self._file, self._totals.pack(), 0)
