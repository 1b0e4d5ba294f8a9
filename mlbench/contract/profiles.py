"""Records and limits of profiles: a few seconds of a rank, recorded by its agent on request."""

from dataclasses import dataclass
from typing import Final, Literal

from mlbench.contract.records import Record, Time

MAX_SECONDS: Final = 60
"""Maximum duration of a profile, in seconds."""
MAX_BYTES: Final = 32 << 20
"""Maximum size of a profile's compressed file, in bytes."""
MAX_OPERATORS: Final = 10
"""Maximum number of operators, and of lines of code, that a profile lists."""
MAX_TEXT_LENGTH: Final = 300
"""Maximum length of an operator's name and of a problem, in characters."""

Tool = Literal["pytorch", "py-spy", ""]


@dataclass(frozen=True)
class Operator(Record):
    """A profiled PyTorch operator, GPU kernel, or Python function."""

    name: str
    """Name, such as ``aten::addmm`` or ``load_batch (data.py)``."""
    calls: int | None
    """Number of calls; None for a sampling profiler, which does not count calls."""
    self_seconds: float
    """Seconds in the operator itself, without its callees, summed over the threads."""
    total_seconds: float
    """Seconds in the operator and its callees, summed over the threads."""


@dataclass(frozen=True)
class CodeLine(Record):
    """The profiled time of a line of the user's code."""

    name: str
    """Place and text of the line, such as ``train.py:42 time.sleep(0.09)``, or ``other lines``."""
    seconds: float
    """Seconds of the main thread in the line and its callees outside of the user's code."""
    activity: str
    """Activity with most of the time: ``Python``, a PyTorch operator, or a library's function."""
    activity_seconds: float
    """Seconds of the activity."""


@dataclass(frozen=True)
class ProfileResult(Record):
    """The header line that an agent sends before the file of a profile."""

    tool: Tool
    """Profiler that was used; empty if none was available."""
    began_at: float
    """Start of the profile, in Unix seconds."""
    ended_at: float
    """Unix time at which the profile was written and the process undisturbed again, in seconds."""
    problem: str
    """Reason why there is no file; empty if there is one."""
    operators: tuple[Operator, ...]
    """Operators with most ``self_seconds``, in descending order."""
    lines: tuple[CodeLine, ...] = ()
    """Lines with most ``seconds``, in descending order. They add up to the profiled time."""


@dataclass(frozen=True)
class RankProfile(Record):
    """A profile of a rank."""

    id: int
    attempt: int
    rank: int
    seconds: int
    """Requested duration, in seconds."""
    asked_at: Time
    """Time of the request."""
    done: bool
    """Whether the profile is complete, or has failed."""
    tool: Tool
    """Profiler that was used; empty if none was available, or before the end."""
    began_at: Time | None
    """Start of the profile; None until it is done, or if it failed."""
    ended_at: Time | None
    """Time at which the profile was written, later than its start plus ``seconds``.

    None until it is done, or if it failed.
    """
    problem: str
    """Reason why there is no file; empty if there is one, or until the profile is done."""
    file: str | None
    """Name of the profile among the run's files; None without a file.

    The file is a Chrome trace, or in speedscope's format.
    """
    size: int | None
    """Size of the file, in bytes; None without a file."""
    operators: tuple[Operator, ...]
    """Operators with most ``self_seconds``, in descending order."""
    lines: tuple[CodeLine, ...] = ()
    """Lines with most ``seconds``, in descending order. They add up to the profiled time."""
