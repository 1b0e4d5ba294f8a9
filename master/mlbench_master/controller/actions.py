"""The actions that the controller decides on, and the executor carries out."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from mlbench.contract.autopsy import Reason
from mlbench.contract.runspec import WorkerSpec


@dataclass(frozen=True)
class Scale:
    """Bring the pool to this many worker pods of a shape."""

    workers: int
    shape: WorkerSpec = WorkerSpec()  # noqa: RUF009 - it is frozen
    busy: AbstractSet[str] = frozenset()
    """The uids of the pods of runs, which stay as they are."""


@dataclass(frozen=True)
class Wait:
    """Show users what the run waits for."""

    run_id: int
    why: str
    has_room: bool = False
    """Whether it lacks nothing but workers, to begin."""


@dataclass(frozen=True)
class Assign:
    """Begin an attempt: the first worker gets rank 0, and so on."""

    run_id: int
    attempt: int
    workers: tuple[str, ...]
    cores: tuple[tuple[int, ...], ...] | None = None
    """By rank: those of its worker, none where its pod has its own; None: as it had before."""


@dataclass(frozen=True)
class Ask:
    """Ask the ranks of a run why it does not go on."""

    run_id: int
    reason: Reason


@dataclass(frozen=True)
class StopRanks:
    """Tell the agents to stop every rank of the current attempt."""

    run_id: int
    reason: str = ""
    """Why, if neither a failed rank nor the user is the cause."""


@dataclass(frozen=True)
class MarkLost:
    """Give a rank up for good: its streams end with what is held of them."""

    run_id: int
    attempt: int
    rank: int
    seen_at: float
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
    """The rank whose last lines of stderr are appended to the reason."""


Action = Scale | Wait | Assign | Ask | StopRanks | MarkLost | Count | End
