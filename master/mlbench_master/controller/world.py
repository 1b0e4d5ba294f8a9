"""The world as the controller sees it when it decides: runs, ranks and workers, as plain data."""

import math
from dataclasses import dataclass

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.reading.counting import SampleCounts


@dataclass(frozen=True)
class PoolPolicy:
    """The size of the pool while no run needs more, and how long it waits and is waited for."""

    min_workers: int
    start_seconds: float
    """A run whose workers have not come by then fails."""
    idle_seconds: float
    """How long the workers of the last run are kept for the next one."""
    concurrent_runs: int = 1
    """How many runs go on at a time, where there is room."""


@dataclass(frozen=True)
class WorkerView:
    """A worker pod that can be used, and what its agent reported last."""

    name: str
    number: int
    """Its place in the pool, which shrinks from the highest number down."""
    busy: bool
    silent: float
    """Reachable seconds since its last report; infinite before a pause."""


@dataclass(frozen=True)
class RankView:
    """A rank of the current attempt."""

    rank: int
    worker: str
    pod_uid: str
    """The pod that it was assigned to; empty where pods have no uid."""
    reported: bool
    """Whether its agent has reported it."""
    stopping: bool
    exit_code: int | None
    exited_at: float | None
    """When it exited; when it was last heard of, if it is lost."""
    held: int
    """Bytes of its streams that the master holds."""
    streams_complete: bool
    """Whether that is all that its process wrote."""
    seen_at: float
    """When its agent last reported; when it was assigned, if never."""
    silent: float
    """Reachable seconds since its agent last reported."""
    forgotten: bool
    """Whether its agent reported it once, and does not any more."""
    replaced: bool
    """Whether another pod has taken the place of its own."""
    trouble: str
    """What is wrong with its pod, or was since the assignment; empty if nothing is known."""
    lost: str
    """Why it was given up; empty for a rank that was not."""
    failure: str = ""
    """Why it has failed whatever its exit code, as its agent says; empty if it has not."""
    has_several: bool = False
    """Whether its worker has several processes, with ranks of their own."""
    ending: float = 0.0
    """Reachable seconds since it was told to stop or exited, as long as it is not over."""
    stuck: float = 0.0
    """How many of these passed since the last progress of its streams."""

    @property
    def place(self) -> str:
        """Its name in a sentence."""
        return self.worker if self.has_several else f"rank {self.rank} on {self.worker}"

    @property
    def exited(self) -> bool:
        """Whether its process has ended."""
        return self.exit_code is not None

    @property
    def over(self) -> bool:
        """Whether nothing more can come from it."""
        return bool(self.lost) or (self.exited and self.streams_complete)


@dataclass(frozen=True)
class RunView:
    """A run that goes on, or is the next to begin."""

    id: int
    attempt: int
    num_workers: int
    shape: WorkerSpec
    max_restarts: int
    stop_requested: bool
    deadline_seconds: float | None
    """After its start, when training shall end."""
    waiting: str
    """What the API says that it waits for; empty if nothing."""
    stop_reason: str
    """Why the controller stopped its ranks by itself; empty if it did not."""
    ranks: tuple[RankView, ...]
    delivered: bool
    """Whether every sample held is in Prometheus or kept."""
    delivery: SampleCounts | None
    """The count of its samples; None before it."""
    overdue: float = -math.inf
    """Seconds past the deadline; negative before it, or without one."""
    waited: float = 0.0
    """Seconds that it was seen in its phase: without ranks, with this attempt's, all over."""
    quiet: float = 0.0
    """Seconds that nothing of what its ranks write was seen to come."""
    asked: float = math.inf
    """Seconds since its ranks were asked why it does not go on, if one failed or it is to stop."""
    answered: bool = False
    """Whether those have answered that can."""
    cores: frozenset[int] = frozenset()
    """The pool's cores that its ranks have; looked up only while another run waits to begin."""

    @property
    def missing(self) -> list[int]:
        """The ranks that have not joined the attempt of a recorded run."""
        joined = {rank.rank for rank in self.ranks}
        return [rank for rank in range(self.num_workers) if rank not in joined]

    @property
    def is_steady(self) -> bool:
        """Whether its ranks all run."""
        return bool(self.ranks) and all(
            rank.reported and not (rank.exited or rank.stopping) for rank in self.ranks
        )


@dataclass(frozen=True)
class WarmPool:
    """The workers that the last run had."""

    num_workers: int
    shape: WorkerSpec


@dataclass(frozen=True)
class World:
    """Everything that a decision depends on."""

    policy: PoolPolicy
    runs: tuple[RunView, ...]
    """Those that have begun, then the next one if it may go on beside them: in order of id."""
    stopped_in_queue: tuple[int, ...]
    """Queued runs behind these that their users have stopped."""
    workers: tuple[WorkerView, ...]
    waits_for: str
    """Why more pods are not there, as the pool says; empty if nothing is known."""
    warm: WarmPool | None
    """What the last run leaves behind; None if it never began, or there was none."""
    idle: float
    """Seconds since the last run ended; 0 while there is one."""
    cores: tuple[int, ...] | None = None
    """The cores that runs share; None where each worker has its own, and all are of one shape."""
    recorded: tuple[RunView, ...] = ()
    """Those that go on though others start their processes: the pool has no part in them."""

    @property
    def is_steady(self) -> bool:
        """Whether there is no run, or the ranks of all that have begun run."""
        begun = [run for run in self.runs if run.ranks]
        is_steady = all(run.is_steady for run in (*begun, *self.recorded))
        return is_steady and (bool(begun) or not self.runs)
