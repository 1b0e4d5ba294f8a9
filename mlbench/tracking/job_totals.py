"""The totals of a process of a job that others start: a small file that the job's recorder reads.

Its room is taken when it is made: a disk that is full later still takes what is written again.
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
    """What a process of a recorded job has done so far."""

    steps: int = 0
    step_seconds: float = 0.0
    progress_at: float = 0.0
    """When a step was done or an evaluation begun, last: Unix seconds, 0 if never."""
    lost: int = 0
    """Values that could not be written to the metrics file."""


def read_totals(path: Path) -> JobTotals:
    """Return the totals that a file holds; zeros if it holds none."""
    with suppress(OSError):
        data = path.read_bytes()[: _FORMAT.size]
        if len(data) == _FORMAT.size:
            numbers = _FORMAT.unpack(data)
            if all(isfinite(number) and number >= 0 for number in numbers):
                return JobTotals(*numbers)
    return JobTotals()


class TotalsFile:
    """Writes the totals of one rank, whose earlier losses count too; what fails is left out."""

    def __init__(self, path: Path) -> None:
        """Take the file's room."""
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
        """Add the steps since the last call; samples and phases are in the metrics file alone."""
        self._steps += steps
        if steps:
            self.mark_progress()

    def mark_progress(self) -> None:
        """Note that the training goes on; an alert fires if that is long ago."""
        self._progress_at = time.time()
        self._write()

    def add_lost(self, values: int) -> None:
        """Count values that could not be written."""
        self._lost += values
        self._write()

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            os.close(self._file)
        self._file = -1

    def _write(self) -> None:
        numbers = self._steps, self._step_seconds, self._progress_at, self._lost
        with suppress(OSError):
            os.pwrite(self._file, _FORMAT.pack(*numbers), 0)
