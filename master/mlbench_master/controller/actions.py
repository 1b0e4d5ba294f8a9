"""Actions that the controller decides on and the executor carries out."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from mlbench.contract.diagnosis import Reason
from mlbench.contract.runspec import WorkerSpec


@dataclass(frozen=True)
class Scale:
    """Bring the pool to this number of worker pods of a shape."""

    workers: int
    shape: WorkerSpec = WorkerSpec()  # noqa: RUF009 - it is frozen
    busy: AbstractSet[str] = frozenset()
    """Uids of the pods that runs use: they must not be replaced."""


@dataclass(frozen=True)
class Wait:
    """Show users why the run waits."""

    run_id: int
    why: str
    has_room: bool = False
    """Whether only workers are missing for its start."""


@dataclass(frozen=True)
class Assign:
    """Start an attempt: the first worker gets rank 0, the second rank 1, and so on."""

    run_id: int
    attempt: int
    workers: tuple[str, ...]
    cores: tuple[tuple[int, ...], ...] | None = None
    """Cores by rank, empty if the pod has its own; None: the cores of the last attempt."""


@dataclass(frozen=True)
class Ask:
    """Ask the ranks of a run for their hang diagnosis."""

    run_id: int
    reason: Reason


@dataclass(frozen=True)
class StopRanks:
    """Have the agents stop every rank of the current attempt."""

    run_id: int
    reason: str = ""
    """Cause, unless it is a failed rank or the user."""


@dataclass(frozen=True)
class MarkLost:
    """Give up a rank permanently: its streams end with the bytes that are stored."""

    run_id: int
    attempt: int
    rank: int
    seen_at: float
    why: str


@dataclass(frozen=True)
class End:
    """End the run."""

    run_id: int
    state: Literal["FINISHED", "FAILED", "STOPPED"]
    reason: str = ""
    failed_rank: int | None = None
    """Rank whose last lines of stderr are appended to the reason."""


Action = Scale | Wait | Assign | Ask | StopRanks | MarkLost | End
