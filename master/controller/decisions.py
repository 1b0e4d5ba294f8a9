"""What the controller decides: from what is and what should be to a list of actions.

No clock, no network, no database: everything comes in as an argument, so every case can be tested.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from master.reading.counting import Counted

# A worker that was not heard of for this long is lost.
LOST_SECONDS = 30.0
# A worker must have been heard of this lately to be given a rank. A thousand poll every 5 s.
FRESH_SECONDS = 10.0
# A run whose workers have not come by then fails, and so does a rank that has not begun.
START_SECONDS = 120.0
# The pool shrinks back to its usual size after this long without a run.
SHRINK_SECONDS = 60.0


@dataclass(frozen=True)
class WorkerView:
    """A worker pod that its pool calls running, and what its agent said last."""

    name: str
    number: int
    """Its place in the pool, which shrinks from the highest number down."""
    busy: bool
    seen_at: float


@dataclass(frozen=True)
class RankView:
    """A rank of the attempt that is going on."""

    rank: int
    worker: str
    assigned_at: float
    reported: bool
    """Whether its agent has said that it has it."""
    stopping: bool
    exit_code: int | None
    exited_at: float | None
    """When it exited; when it was last heard of, if it is lost."""
    streams_complete: bool
    """Whether all bytes that its process wrote are held."""
    seen_at: float
    """When its agent was last heard of; when it was assigned, if never."""
    forgotten: bool
    """Whether its agent knows nothing of it any more, though it did."""
    lost: str
    """Why it was written off, for good; empty for a rank that was not."""

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
    max_restarts: int
    stop_requested: bool
    created_at: float
    ranks: tuple[RankView, ...]
    delivered: bool
    """Whether every sample held is in Prometheus or kept."""
    delivery: Counted | None
    """What was counted once everything was delivered."""


@dataclass(frozen=True)
class World:
    """Everything that the controller looks at."""

    now: float
    watched_since: float
    """Since when the controller has been looking without a pause: silence before is its own."""
    run: RunView | None
    unwanted: tuple[int, ...]
    """Runs that wait in the queue behind it, and that their users have stopped."""
    last_run_ended_at: float
    """0 where no run has ended yet."""
    workers: tuple[WorkerView, ...]
    usual_workers: int


@dataclass(frozen=True)
class Scale:
    """Have this many worker pods."""

    workers: int


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
    """Count the run's samples."""

    run_id: int


@dataclass(frozen=True)
class End:
    """End the run."""

    run_id: int
    state: Literal["FINISHED", "FAILED", "STOPPED"]
    reason: str = ""
    failed_rank: int | None = None
    """The rank whose last lines of stderr belong to the reason."""


Action = Scale | Assign | StopRanks | WriteOff | Count | End


def decide(world: World) -> list[Action]:
    """Return what is to be done now. Doing it twice must do no harm."""
    run = world.run
    actions: list[Action] = [Scale(_pool_size(world))]
    actions += [End(run_id, "STOPPED") for run_id in world.unwanted]
    if run is None:
        return actions
    if not run.ranks:
        return actions + _begin(run, world)
    if lost := _find_lost(run, world):
        return actions + lost
    if not all(rank.over for rank in run.ranks):
        return actions + _watch(run)
    return actions + _conclude(run, world)


def describe_exit(exit_code: int) -> str:
    """Return an exit code in words: a negative one is the signal that killed the process."""
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def _pool_size(world: World) -> int:
    if world.run is not None:
        return max(world.usual_workers, world.run.num_workers)
    if world.now - world.last_run_ended_at < SHRINK_SECONDS:
        return max(world.usual_workers, len(world.workers))
    return world.usual_workers


def _begin(run: RunView, world: World) -> list[Action]:
    """Give out the ranks of the first attempt, once there are workers for all of them."""
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    if begin := _assign(run, world):
        return begin
    # Its turn comes once the run before it has ended.
    due_at = max(run.created_at, world.last_run_ended_at, world.watched_since)
    if world.now - due_at > START_SECONDS:
        return [End(run.id, "FAILED", _shortage(run, world))]
    return []


def _assign(run: RunView, world: World) -> list[Action]:
    free = _free_workers(world)
    if len(free) < run.num_workers:
        return []
    return [Assign(run.id, run.attempt + 1, tuple(free[: run.num_workers]))]


def _free_workers(world: World) -> list[str]:
    """Return the workers that can be given a rank: not those that the pool is about to end."""
    size = _pool_size(world)
    return [
        w.name
        for w in world.workers
        if not w.busy and w.number < size and world.now - w.seen_at < FRESH_SECONDS
    ]


def _shortage(run: RunView, world: World) -> str:
    there = len(_free_workers(world))
    return f"only {there} of {run.num_workers} workers were there within {START_SECONDS:.0f} s"


def _find_lost(run: RunView, world: World) -> list[Action]:
    """Give up the ranks that can no longer tell how they went, or all that they wrote.

    For good: the attempt has failed then, also if the worker is heard of again.
    """
    return [
        WriteOff(run.id, run.attempt, rank.rank, rank.seen_at, why)
        for rank in run.ranks
        if not rank.over and (why := _why_lost(rank, world))
    ]


def _why_lost(rank: RankView, world: World) -> str:
    if rank.forgotten:
        return f"the agent of {rank.worker} knows it no more"
    if world.now - max(rank.seen_at, world.watched_since) > LOST_SECONDS:
        return f"{rank.worker} was not heard of for {world.now - rank.seen_at:.0f} s"
    waited = world.now - max(rank.assigned_at, world.watched_since)
    if not rank.reported and waited > START_SECONDS:
        return f"{rank.worker} did not begin it within {START_SECONDS:.0f} s"
    return ""


def _watch(run: RunView) -> list[Action]:
    """While ranks are going on: stop them all as soon as one has failed, or the user says so."""
    must_stop = run.stop_requested or _failed(run.ranks)
    if must_stop and not all(rank.stopping for rank in run.ranks):
        return [StopRanks(run.id)]
    return []


def _conclude(run: RunView, world: World) -> list[Action]:
    """Once all ranks are over: another attempt, or count what was recorded and end the run."""
    if _may_restart(run):
        if begin := _assign(run, world):
            return begin
        over_at = max(rank.exited_at or 0.0 for rank in run.ranks)
        if world.now - max(over_at, world.watched_since) <= START_SECONDS:
            return []
    if not run.delivered:
        return []
    if run.delivery is None:
        return [Count(run.id)]
    return [_end(run, run.delivery, world)]


def _may_restart(run: RunView) -> bool:
    return bool(_failed(run.ranks)) and not run.stop_requested and run.attempt <= run.max_restarts


def _end(run: RunView, delivery: Counted, world: World) -> End:
    disagreement = _disagreement(delivery)
    if run.stop_requested:
        return End(run.id, "STOPPED", disagreement)
    if failed := _failed(run.ranks):
        cause = _first(failed)
        shortage = f"no restart: {_shortage(run, world)}" if _may_restart(run) else ""
        reasons = filter(None, [_describe(cause), shortage, disagreement])
        return End(run.id, "FAILED", "; ".join(reasons), cause.rank)
    if disagreement:
        return End(run.id, "FAILED", disagreement)
    return End(run.id, "FINISHED")


def _failed(ranks: Sequence[RankView]) -> list[RankView]:
    return [rank for rank in ranks if rank.exit_code or rank.lost]


def _first(failed: Sequence[RankView]) -> RankView:
    """Return the rank that failed first: the others failed because it did, or were stopped."""
    return min(failed, key=lambda rank: (rank.exited_at or 0.0, rank.rank))


def _describe(rank: RankView) -> str:
    if rank.exit_code:
        return f"rank {rank.rank} on {rank.worker} {describe_exit(rank.exit_code)}"
    return f"rank {rank.rank} is lost: {rank.lost}"


def _disagreement(delivery: Counted) -> str:
    if delivery.agrees:
        return ""
    return (
        f"samples are missing: {delivery.recorded} recorded, "
        f"{delivery.in_prometheus} in Prometheus, {delivery.kept} kept"
    )
