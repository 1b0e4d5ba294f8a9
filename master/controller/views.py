"""What the controller sees when it decides: everything of workers and runs that counts for that."""

from dataclasses import dataclass

from master.pools.base import Shape
from master.reading.counting import Counted


@dataclass(frozen=True)
class WorkerView:
    """A worker pod that can be used, and what its agent said last."""

    name: str
    number: int
    """Its place in the pool, which shrinks from the highest number down."""
    busy: bool
    silent: float
    """How many seconds the master has heard since it heard of it; infinite before a pause."""


@dataclass(frozen=True)
class RankView:
    """A rank of the attempt that is going on."""

    rank: int
    worker: str
    pod_uid: str
    """Which pod that was; empty where pods have none."""
    reported: bool
    """Whether its agent has said that it has it."""
    stopping: bool
    exit_code: int | None
    exited_at: float | None
    """When it exited; when it was last heard of, if it is lost."""
    held: int
    """How many bytes of its streams are held."""
    streams_complete: bool
    """Whether all bytes that its process wrote are held."""
    seen_at: float
    """When its agent was last heard of; when it was assigned, if never."""
    silent: float
    """How many seconds the master has heard since its agent was last heard of."""
    forgotten: bool
    """Whether its agent knows nothing of it any more, though it did."""
    replaced: bool
    """Whether another pod has taken the place of the one that it was given to."""
    trouble: str
    """What is wrong with its pod, or was since it has the rank; empty if nothing is known."""
    lost: str
    """Why it was written off, for good; empty for a rank that was not."""
    failure: str = ""
    """Why it has failed, however its process ends, as its agent says; empty if it has not."""
    ending: float = 0.0
    """For how many seconds it was told to stop, or has exited, and is not over."""
    stuck: float = 0.0
    """For how many of these nothing to speak of has come of its streams."""

    @property
    def exited(self) -> bool:
        """Whether its process has ended."""
        return self.exit_code is not None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to come from it."""
        return bool(self.lost) or (self.exit_code is not None and self.streams_complete)


@dataclass(frozen=True)
class RunView:
    """The run that has not ended."""

    id: int
    attempt: int
    num_workers: int
    shape: Shape
    """What its workers must be like."""
    max_restarts: int
    stop_requested: bool
    deadline_seconds: float | None
    """After its start, when training shall end; None: never."""
    overdue: float
    """For how many seconds it was seen to be past that; below 0 before it, or without one."""
    waiting: str
    """What it says that it waits for; empty if it does not."""
    stop_reason: str
    """Why the controller has stopped its ranks of its own accord; empty if it has not."""
    ranks: tuple[RankView, ...]
    delivered: bool
    """Whether every sample held is in Prometheus or kept."""
    delivery: Counted | None
    """What was counted once everything was delivered."""


@dataclass(frozen=True)
class Warm:
    """The workers that the last run had."""

    num_workers: int
    shape: Shape


@dataclass(frozen=True)
class World:
    """Everything that the controller looks at."""

    waited: float
    """For how many seconds the run was seen to be as far as it is: what came before is not known.

    That is without ranks, with those of this attempt, or with all of them over."""
    idle: float
    """How many seconds ago the last run ended, or was seen to have; 0 while there is one."""
    run: RunView | None
    unwanted: tuple[int, ...]
    """Runs that wait in the queue behind it, and that their users have stopped."""
    workers: tuple[WorkerView, ...]
    waits_for: str
    """Why more pods are not there, as the pool says; empty if nothing is known."""
    warm: Warm | None
    """What the last run leaves behind; None where it never began, or there was none."""
    usual_workers: int
    start_seconds: float
    """A run whose workers have not come by then fails."""
    idle_seconds: float
    """After so long without a run, the pool goes back to its usual size and shape."""
