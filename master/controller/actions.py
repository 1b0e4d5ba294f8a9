"""What the controller can do, and decides on."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from master.pools.base import Shape


@dataclass(frozen=True)
class Scale:
    """Have this many worker pods of a shape."""

    workers: int
    shape: Shape = Shape()  # noqa: RUF009 - it is frozen
    busy: AbstractSet[str] = frozenset()
    """The uids of the pods that the run has, which stay as they are."""


@dataclass(frozen=True)
class Wait:
    """Have the run say what it waits for."""

    run_id: int
    why: str


@dataclass(frozen=True)
class Assign:
    """Begin an attempt: give each of these workers the rank of its place."""

    run_id: int
    attempt: int
    workers: tuple[str, ...]


@dataclass(frozen=True)
class StopRanks:
    """Have every rank of the attempt stopped."""

    run_id: int
    reason: str = ""
    """Why, if neither a rank nor the user is."""


@dataclass(frozen=True)
class WriteOff:
    """Give a rank up for good, and take what is held of its streams as all there will be."""

    run_id: int
    attempt: int
    rank: int
    heard_at: float
    why: str


@dataclass(frozen=True)
class Count:
    """Have the run's samples counted."""

    run_id: int


@dataclass(frozen=True)
class End:
    """End the run."""

    run_id: int
    state: Literal["FINISHED", "FAILED", "STOPPED"]
    reason: str = ""
    failed_rank: int | None = None
    """The rank whose last lines of stderr belong to the reason."""


Action = Scale | Wait | Assign | StopRanks | WriteOff | Count | End
