"""Answers to what is sent, and errors."""

from dataclasses import dataclass
from typing import Any, Literal

from mlbench.contract.records.base import Record, SparseRecord, Time


@dataclass(frozen=True, kw_only=True)
class Echo(SparseRecord):
    """A sample as it was given, with one of ``run_id`` and ``pod_name``."""

    run_id: int | None = None
    pod_name: str | None = None
    name: str
    date: Time
    value: str
    cumulative: bool | None = None
    metadata: Any = None


@dataclass(frozen=True)
class Count(Record):
    """How many samples a list had."""

    count: int


@dataclass(frozen=True)
class Joined(Record):
    """The rank of a run that a process has, which MLBench did not start."""

    run_id: int
    attempt: int
    pod: str
    """The pod that stands for the rank: its recorder polls in its name."""
    token: str
    """That pod's."""


@dataclass(frozen=True)
class JoinToken(Record):
    """A joining token, with which other programs record jobs."""

    id: str
    """The holder of the token: only its own runs are found with it."""
    name: str
    """Who uses the token, or for what; may be empty."""
    created_at: str | None
    """When it was made; None if that was not noted."""
    expires_at: str
    """When it expires."""
    revoked_at: str | None
    """When it was revoked; None if it was not."""
    last_used_at: str | None
    """When a process last joined with it; None if none has."""
    runs: int
    """Number of runs that were ordered with it."""
    token: str | None = None
    """The text of the token, only in the response that makes it."""


@dataclass(frozen=True)
class Held(Record):
    """How much of a stream the master has."""

    offset: int
    """In bytes: where the next chunk begins."""
    next_ship_seconds: float
    """After how long to ship again, while the rank's process runs."""


@dataclass(frozen=True)
class Health(Record):
    """All is well."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class Error(Record):
    """What went wrong."""

    status: int
    """The answer's status code again."""
    message: str
    """Which field or part of the request is wrong, and what would be right."""
