"""Sources read values that a rank's processes report in other formats. Extensions register them."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract.assignment import Assignment

Line = Mapping[str, object]
"""A line of the metrics file. A line without a time has the current time."""
Sockets = tuple[socket.socket, socket.socket]
"""Two unbound TCP sockets in the rank's own network."""


@dataclass(frozen=True)
class SourceContext:
    """What a source can use, from before the start of a rank to its end."""

    assignment: Assignment
    folder: Path
    """The working folder of the rank."""
    stdout: Path
    output: Path
    """The folder of the rank's output files."""
    environ: Mapping[str, str]
    """The environment of the rank's processes, with the variables of the sources before."""
    identity: Mapping[str, str]
    """Variables that all processes of the rank have in their environment."""
    append: Callable[[Sequence[Line]], None]
    """Writes lines to the metrics file, or raises an OSError."""
    say: Callable[[str], None]
    """Prints a message in the run's log."""
    sockets: Sockets | None
    """Sockets in the rank's own network; None if it shares the machine's."""
    root: int | None
    """The process whose descendants are the rank's processes; None for this process."""
    exit_code: Callable[[], int | None]
    """Returns the exit code of the rank; None before its end."""


class Source:
    """A source of a rank: the base class of what an entry point of ``mlbench.sources`` returns.

    The entry point is a callable with a ``SourceContext``. It may raise an OSError or RuntimeError.
    """

    variables: Mapping[str, str] = {}
    """Variables to add to the environment of the rank's processes."""
    secret = ""
    """A secret in the variables, which is replaced in the logs; "" without one."""

    @property
    def failure(self) -> str:
        """The reason for which values of the processes are lost; "" if none are lost."""
        return ""

    @property
    def not_recorded(self) -> Mapping[str, int]:
        """Counts of unrecorded values and files, by the fields of ``records.NotRecorded``."""
        return {}

    def close(self) -> None:
        """Read the last values of the processes, which have ended."""
