"""Responses to uploads and joins, and errors."""

from dataclasses import dataclass
from typing import Any, Literal

from mlbench.contract.people import Role
from mlbench.contract.records.record import Record, SparseRecord, Time


@dataclass(frozen=True, kw_only=True)
class Echo(SparseRecord):
    """A posted sample as the master stored it, with either ``run_id`` or ``pod_name``."""

    run_id: int | None = None
    pod_name: str | None = None
    name: str
    date: Time
    value: str
    cumulative: bool | None = None
    metadata: Any = None


@dataclass(frozen=True)
class Count(Record):
    """The number of samples in a posted list."""

    count: int


@dataclass(frozen=True)
class Joined(Record):
    """The run and the rank that a process of an external job was given when it joined."""

    run_id: int
    attempt: int
    pod: str
    """Name of the pod that represents the rank. The rank's recorder polls under this name."""
    token: str
    """Token of that pod, for the recorder's requests."""


@dataclass(frozen=True)
class JoinToken(Record):
    """A named token, with the role of its user. Other programs record jobs with joining tokens."""

    id: str
    """Identifier of the token. A process that joins with the token finds only the token's runs."""
    name: str
    """User of the token, or purpose of a joining token; may be empty."""
    created_at: str | None
    """Time of creation in UTC; None if unknown."""
    expires_at: str
    """Time of expiry in UTC."""
    revoked_at: str | None
    """Time of revocation in UTC; None if the token was not revoked."""
    last_used_at: str | None
    """Time in UTC at which a process last joined with the token; None if it was never used."""
    runs: int
    """Number of runs that were created with the token."""
    role: Role = "record"
    token: str | None = None
    """The token itself, only in the response that creates it; otherwise None."""


@dataclass(frozen=True)
class Held(Record):
    """How much of a stream the master has stored."""

    offset: int
    """Start of the next chunk, in bytes from the start of the stream."""
    next_ship_seconds: float
    """Seconds to wait before shipping the next chunk, while the rank's process runs."""


@dataclass(frozen=True)
class Health(Record):
    """The response of a healthy master."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class Error(Record):
    """The response to a request that failed."""

    status: int
    """HTTP status code of the response."""
    message: str
    """The field or part of the request that is wrong, and how to correct it."""
