"""Profiles: what a rank spends some seconds on, as its agent records them when it is asked to."""

from dataclasses import dataclass
from typing import Final, Literal

from mlbench.contract.records import Record, Time

MOST_SECONDS: Final = 60
MOST_BYTES: Final = 32 << 20
"""Of a profile's file, compressed."""
MOST_OPERATORS: Final = 10
LONGEST_TEXT: Final = 300

Tool = Literal["pytorch", "py-spy", ""]


@dataclass(frozen=True)
class Operator(Record):
    """An operator of PyTorch, a GPU's kernel, or, as py-spy sees them, a function of Python."""

    name: str
    """For instance ``aten::addmm``, or ``load_batch (data.py)``."""
    calls: int | None
    """Null where samples were taken, which count no calls."""
    self_seconds: float
    """Without what it called, summed over its threads."""
    total_seconds: float


@dataclass(frozen=True)
class Recorded(Record):
    """What an agent says of a profile, in a line before the profile's file, if there is one."""

    tool: Tool
    """What has recorded it; "" if nothing could."""
    began_at: float
    """In Unix seconds."""
    ended_at: float
    """When the process was left alone again, its profile written."""
    problem: str
    """Why there is no file; "" if there is one."""
    operators: tuple[Operator, ...]
    """Those that took most by themselves."""


@dataclass(frozen=True)
class RankProfile(Record):
    """A profile of a rank."""

    id: int
    attempt: int
    rank: int
    seconds: int
    """For how long it was asked for."""
    asked_at: Time
    done: bool
    """Whether nothing more will come of it."""
    tool: Tool
    began_at: Time | None
    ended_at: Time | None
    """Longer after its beginning than it was asked for: the profile has to be written."""
    problem: str
    """Why it has no file; "" if it has one, or is not done."""
    file: str | None
    """By this name it is among the run's files: a Chrome trace, or speedscope's format."""
    size: int | None
    operators: tuple[Operator, ...]
    """Those that took most by themselves, the first one most."""
