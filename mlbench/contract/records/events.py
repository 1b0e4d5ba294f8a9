"""What happened to a run, and the alerts that fire."""

from dataclasses import dataclass
from typing import Literal

from mlbench.contract.records.base import Record, Time

EventKind = Literal[
    "created",
    "ready",
    "restarted",
    "started",
    "goal",
    "autopsy",
    "fault",
    "exited",
    "lost",
    "finished",
    "failed",
    "stopped",
    "shipped",
    "added",
]


@dataclass(frozen=True)
class RunEvent(Record):
    """Something that happened to a run."""

    time: Time
    """An exit and a goal by the worker's clock, all else by the master's."""
    kind: EventKind
    """`ready`: the workers are there; `started`: all ranks run; `restarted`: a later attempt began,
    or torchrun began a worker's processes anew;
    `goal`: the goal was reached; `fault`: a failure was injected, or would have been;
    `exited`: a rank ended with an error; `lost`: it was given up;
    `shipped`: the data of a recording arrived after its end."""
    attempt: int
    """0 before the first one."""
    rank: int | None
    """The rank that it happened to; None for the run as a whole."""
    text: str
    """What happened, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Alert(Record):
    """An alert that fires."""

    name: str
    severity: str
    """`critical`: a run is wasted, or nobody watches; `warning`: look at it today."""
    since: Time
    text: str
    """What is wrong, in a sentence or two."""
    runbook: str
    """The page that says what to do, in the documentation."""
    run_id: int | None
    """The run that it is about; None for a part of the installation."""
    rank: int | None
    pod: str | None


@dataclass(frozen=True)
class RunAlert(Record):
    """An alert that fired about a run, from when to when."""

    name: str
    severity: str
    rank: int | None
    began_at: Time
    """To within a few seconds; in a long run, a thousandth of it."""
    ended_at: Time | None
    """None while it fires."""
