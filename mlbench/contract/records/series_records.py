"""Samples, logs and files of runs."""

from dataclasses import dataclass
from typing import Any

from mlbench.contract.records.record import Record, SparseRecord, Time


@dataclass(frozen=True)
class Point(SparseRecord):
    """A point of a series: a recorded value, or the average of several values."""

    date: Time
    value: str
    """Value as text; ``NaN``, ``Infinity`` and texts are possible."""
    cumulative: bool | None = None
    """Whether the value is a total, as the sender stated; None if it did not state it."""
    metadata: Any = None
    """Metadata that was sent with the value; None without metadata."""
    min: str | None = None
    """Smallest finite value of the points that were averaged; None for a recorded value."""
    max: str | None = None
    """Largest finite value of the points that were averaged; None for a recorded value."""
    added: bool | None = None
    """True if the value was posted after the run's end; otherwise None."""

    @property
    def number(self) -> float:
        """The value as a number. Raises ValueError for a text."""
        return float(self.value)


Series = dict[str, list[Point]]
"""Points by the name of their series, such as ``train_loss @ 0``; each list in order of time."""


@dataclass(frozen=True)
class RunFile(Record):
    """A file that a rank wrote to ``$MLBENCH_OUTPUT``."""

    rank: int
    attempt: int
    name: str
    """Path of the file in the output folder, such as ``plots/loss.png``."""
    size: int
    """Size of the file, in bytes."""
    sha256: str | None
    """SHA-256 of the file, in hexadecimal; None if it was too large or changed during reading."""
    path: str | None
    """Path of the file on the rank's machine; None if the master has stored the file."""
    left: str
    """Reason why the master has not stored the file; empty if it has."""


@dataclass(frozen=True)
class LogPage(Record):
    """A part of a rank's log."""

    rank: int
    stream: str
    """Name of the stream: ``stdout`` or ``stderr``."""
    attempt: int
    text: str
    start: int
    """Position of the text in the log, in bytes."""
    offset: int
    """Position of the next part in the log, in bytes."""
    size: int
    """Size of the log so far, in bytes."""
    complete: bool
    """Whether the process has exited and this is the last part."""


@dataclass(frozen=True)
class LogMatch(Record):
    """A line of a log that contains the search text."""

    offset: int
    """Position of the line in the log, in bytes."""
    text: str
    """Text of the line, cut to 500 characters."""


@dataclass(frozen=True)
class LogSearch(Record):
    """The lines of a rank's log that contain the search text."""

    rank: int
    stream: str
    """Name of the stream: ``stdout`` or ``stderr``."""
    attempt: int
    matches: tuple[LogMatch, ...]
    start: int
    """Position in the log at which the search started, in bytes."""
    offset: int
    """Position in the log at which to continue the search, in bytes."""
    size: int
    """Size of the log so far, in bytes."""
    complete: bool
    """Whether the search has reached the end of the log so far."""
