"""Values over time, logs and files of runs."""

from dataclasses import dataclass
from typing import Any

from mlbench.contract.records.base import Record, SparseRecord, Time


@dataclass(frozen=True)
class Point(SparseRecord):
    """A value at a time. ``cumulative`` and ``metadata`` are there where they were given.

    ``added`` is there, and true, where it was posted after the end of its run.

    ``min`` and ``max`` are there where the value is an average of several points: of their finite
    numbers.
    """

    date: Time
    value: str
    cumulative: bool | None = None
    metadata: Any = None
    min: str | None = None
    max: str | None = None
    added: bool | None = None

    @property
    def number(self) -> float:
        """The value as a number; ValueError if it is a text."""
        return float(self.value)


Series = dict[str, list[Point]]
"""Points by the name of their series, such as ``train_loss @ 0``; each list in order of time."""


@dataclass(frozen=True)
class RunFile(Record):
    """A file that a rank left in ``$MLBENCH_OUTPUT``."""

    rank: int
    attempt: int
    name: str
    """With the folders that it is in, such as ``plots/loss.png``."""
    size: int
    sha256: str | None
    """None for a file that is too large to be read, or that changed meanwhile."""
    path: str | None
    """Where it stays on the rank's machine; None if the master holds it."""
    left: str
    """Why the master does not hold it; empty if it does."""


@dataclass(frozen=True)
class LogPage(Record):
    """A piece of what a rank wrote."""

    rank: int
    stream: str
    attempt: int
    text: str
    start: int
    """Where the text begins, in bytes."""
    offset: int
    """Where the next piece begins, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether the process has ended and this is the last piece."""


@dataclass(frozen=True)
class LogMatch(Record):
    """A line that has the text."""

    offset: int
    """Where the line begins, in bytes."""
    text: str
    """The line, cut at 500 characters."""


@dataclass(frozen=True)
class LogSearch(Record):
    """The lines that have a text."""

    rank: int
    stream: str
    attempt: int
    matches: tuple[LogMatch, ...]
    start: int
    """Where the search began, in bytes."""
    offset: int
    """Where to go on, in bytes."""
    size: int
    """Bytes of the log so far."""
    complete: bool
    """Whether the whole log so far was searched."""
