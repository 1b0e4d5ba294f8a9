"""Events of a run, and alerts."""

from dataclasses import dataclass
from typing import Literal

from mlbench.contract.records.record import Record, Time

EventKind = Literal[
    "created",
    "ready",
    "restarted",
    "started",
    "target",
    "diagnosis",
    "fault",
    "exited",
    "lost",
    "planned",
    "finished",
    "failed",
    "stopped",
    "shipped",
    "added",
]


@dataclass(frozen=True)
class RunEvent(Record):
    """An event in a run's life."""

    time: Time
    """Time of the event, by the master's clock; a rank's end and ``target`` by the worker's."""
    kind: EventKind
    """Kind of the event:

    - ``created``: the run was submitted
    - ``ready``: all workers are available
    - ``started``: all ranks run
    - ``restarted``: a later attempt began, or torchrun restarted a worker's processes
    - ``target``: the target was reached
    - ``diagnosis``: a hang diagnosis was requested
    - ``fault``: a fault was injected, could not be injected, or is due
    - ``exited``: a rank exited with an error
    - ``lost``: the master gave up a rank
    - ``planned``: a rank exited or was lost after a fault was injected
    - ``finished``, ``failed``, ``stopped``: the run ended
    - ``shipped``: the data of a recording arrived after its end
    - ``added``: samples were added after the end
    """
    attempt: int
    """Number of the attempt, from 1; 0 before the first attempt."""
    rank: int | None
    """Rank that the event concerns; None if it concerns the run as a whole."""
    text: str
    """Description of the event in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Alert(Record):
    """A firing alert."""

    name: str
    severity: str
    """``critical``: a run is wasted, or monitoring is down. ``warning``: look at it today."""
    since: Time
    """Time since which the alert has been firing."""
    text: str
    """Description of the problem in one or two sentences."""
    runbook: str
    """URL of the documentation page that says what to do."""
    run_id: int | None
    """Run that the alert concerns; None if it concerns a component of the installation."""
    rank: int | None
    """Rank that the alert concerns; None if it does not concern a single rank."""
    pod: str | None
    """Pod that the alert concerns; None if it does not concern a single pod."""


@dataclass(frozen=True)
class RunAlert(Record):
    """A period in which an alert about a run fired."""

    name: str
    severity: str
    """``critical`` or ``warning``."""
    rank: int | None
    """Rank that the alert concerns; None if it concerns the run as a whole."""
    began_at: Time
    """Start of the period. Accurate to a few seconds, or to 0.1 % of a long run's duration."""
    ended_at: Time | None
    """End of the period; None while the alert fires."""
