"""Totals of a process of an external job: a small file that the recorder sidecar reads.

The file has its full size from the start, so that it can be rewritten on a full disk.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from struct import Struct

from mlbench.contract.names import Phase

_FORMAT = Struct("<qddq")


@dataclass(frozen=True)
class JobTotals:
    """Progress of a process of an external job."""

    steps: int = 0
    step_seconds: float = 0.0
    progress_at: float = 0.0
    """Time of the last step or start of an evaluation, in Unix seconds; 0 if there was none."""
    lost: int = 0
    """Number of values that could not be written to the metrics file."""


def read_totals(path: Path) -> JobTotals:
    """Return the totals in a file; zeros if it is missing or invalid."""
    with suppress(OSError):
        data = path.read_bytes()[: _FORMAT.size]
        if len(data) == _FORMAT.size:
            numbers = _FORMAT.unpack(data)
            if all(isfinite(number) and number >= 0 for number in numbers):
                return JobTotals(*numbers)
    return JobTotals()


class TotalsFile:
    """Writes the totals of one rank, adding to earlier lost values. Failed writes are ignored."""

    def __init__(self, path: Path) -> None:
        """Write the file in its full size."""
        self._steps, self._step_seconds, self._progress_at = 0, 0.0, 0.0
        self._lost = read_totals(path).lost
        self._file = -1
        with suppress(OSError):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._write()

    def observe_step(self, seconds: float) -> None:
        """Add the duration of a step."""
        self._step_seconds += seconds

    def publish(self, steps: int, samples: int, phases: Mapping[Phase, float]) -> None:
        """Add the steps since the last call; samples and phases are only in the metrics file."""
        self._steps += steps
        if steps:
            self.mark_progress()

    def mark_progress(self) -> None:
        """Set the time of the last progress; an alert fires if it is long ago."""
        self._progress_at = time.time()
        self._write()

    def add_lost(self, values: int) -> None:
        """Count values that could not be written."""
        self._lost += values
        self._write()

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)
        self._file = -1

    def _write(self) -> None:
        numbers = self._steps, self._step_seconds, self._progress_at, self._lost
        with suppress(OSError):
            os.pwrite(self._file, _FORMAT.pack(*numbers), 0)
