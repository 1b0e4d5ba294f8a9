"""State of runs, ranks and workers that the controller decides on, as plain data."""

import math
from dataclasses import dataclass

from mlbench.contract.runspec import WorkerSpec


@dataclass(frozen=True)
class PoolPolicy:
    """Limits of the pool: its smallest size, its timeouts, and the number of concurrent runs."""

    min_workers: int
    """Number of workers while no run needs more."""
    start_seconds: float
    """Longest wait for the workers of a run; the run fails after it."""
    idle_seconds: float
    """Seconds for which the workers of the last run are kept for the next one."""
    concurrent_runs: int = 1
    """Maximum number of active runs, if there is capacity for them."""


@dataclass(frozen=True)
class WorkerView:
    """A usable worker pod, with the latest report of its agent."""

    name: str
    number: int
    """Index in the pool. The pool shrinks from the highest index down."""
    busy: bool
    """Whether its agent reports a process that runs, or a run that is about to start."""
    silent: float
    """Reachable seconds since its last report; infinite if that was before a pause."""


@dataclass(frozen=True)
class RankView:
    """A rank of the current attempt."""

    rank: int
    worker: str
    pod_uid: str
    """Uid of the assigned pod; empty if pods of this pool have no uid."""
    reported: bool
    """Whether its agent has reported it."""
    stopping: bool
    exit_code: int | None
    exited_at: float | None
    """Unix seconds of its exit. For a lost rank: when it was last heard from."""
    held: int
    """Bytes of its streams that the master has stored."""
    streams_complete: bool
    """Whether the master has stored everything that its process wrote."""
    seen_at: float
    """Unix seconds of its agent's last report, or of the assignment if there is no report."""
    silent: float
    """Reachable seconds since its agent's last report."""
    forgotten: bool
    """Whether its agent reported it once, but no longer does."""
    replaced: bool
    """Whether another pod has replaced the assigned one."""
    trouble: str
    """Problem of its pod since the assignment; empty if none is known."""
    lost: str
    """Reason for giving it up; empty if it was not."""
    failure: str = ""
    """Failure that its agent reports whatever the exit code; empty if there is none."""
    has_several: bool = False
    """Whether its worker has several processes, each with its own rank."""
    ending: float = 0.0
    """Reachable seconds since its exit or the request to stop; 0 once it is over."""
    stuck: float = 0.0
    """The part of ``ending`` since the last progress of its streams, in seconds."""

    @property
    def place(self) -> str:
        """Its name in a message."""
        return self.worker if self.has_several else f"rank {self.rank} on {self.worker}"

    @property
    def exited(self) -> bool:
        """Whether its process has exited."""
        return self.exit_code is not None

    @property
    def over(self) -> bool:
        """Whether the master expects nothing more from it."""
        return bool(self.lost) or (self.exited and self.streams_complete)


@dataclass(frozen=True)
class RunView:
    """An active run, or the next one in the queue."""

    id: int
    attempt: int
    num_workers: int
    shape: WorkerSpec
    max_restarts: int
    stop_requested: bool
    deadline_seconds: float | None
    """Seconds after the start by which training should end; None without a deadline."""
    waiting: str
    """Reason for waiting that the API shows at present; empty if the run does not wait."""
    stop_reason: str
    """Reason for which the controller itself stopped the ranks; empty if it did not."""
    ranks: tuple[RankView, ...]
    recorded: bool
    """Whether every line that its ranks sent is in its record."""
    is_external: bool = False
    """Whether a launcher starts its ranks, which join the run, instead of the pool."""
    overdue: float = -math.inf
    """Seconds past the deadline; negative before the deadline, or without one."""
    waited: float = 0.0
    """Seconds in its phase: without ranks, with ranks of this attempt, or with all ranks over."""
    quiet: float = 0.0
    """Seconds since the last output of any rank of the run arrived."""
    asked: float = math.inf
    """Seconds since the last hang diagnosis of a run that failed or is to stop; else infinite."""
    answered: bool = False
    """Whether all ranks that can respond have responded to that diagnosis."""
    cores: frozenset[int] = frozenset()
    """Cores of the pool that its ranks use; looked up only while another run waits to start."""

    @property
    def missing(self) -> list[int]:
        """Ranks of an external run that have not joined. The pool starts all ranks at once."""
        if not self.is_external:
            return []
        joined = {rank.rank for rank in self.ranks}
        return [rank for rank in range(self.num_workers) if rank not in joined]

    @property
    def is_steady(self) -> bool:
        """Whether all its ranks run."""
        return bool(self.ranks) and all(
            rank.reported and not (rank.exited or rank.stopping) for rank in self.ranks
        )


@dataclass(frozen=True)
class WarmPool:
    """Number and shape of the workers that the last run had."""

    num_workers: int
    shape: WorkerSpec


@dataclass(frozen=True)
class ObservedState:
    """Everything that a decision depends on."""

    policy: PoolPolicy
    runs: tuple[RunView, ...]
    """Active runs, then the next one of the queue if it may run meanwhile, in order of id."""
    stopped_in_queue: tuple[int, ...]
    """Ids of later runs in the queue that their users have stopped."""
    workers: tuple[WorkerView, ...]
    waits_for: str
    """Reason of the pool for not having more pods; empty if none is known."""
    warm: WarmPool | None
    """Workers of the last run; None if it never started, or there was no run."""
    idle: float
    """Seconds since the last run ended; 0 while there is a run."""
    cores: tuple[int, ...] | None = None
    """Cores that runs share; None if each worker has its own and all have the same shape."""
    external: tuple[RunView, ...] = ()
    """Active external runs: others start their processes, and the pool is not involved."""

    @property
    def is_steady(self) -> bool:
        """Whether there is no run, or the ranks of all active runs run."""
        active = [run for run in self.runs if run.ranks]
        is_steady = all(run.is_steady for run in (*active, *self.external))
        return is_steady and (bool(active) or not self.runs)
