"""What the controller decides: from what is and what should be to a list of actions.

No clock, no network, no database: everything comes in as an argument, so every case can be tested.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from master.reading.counting import Delivery

# A worker that was not heard of for this long is lost.
LOST_SECONDS = 30.0
# A worker must have been heard of this lately to be given a rank.
FRESH_SECONDS = 5.0
# A run whose workers have not come by then fails.
START_SECONDS = 120.0
# The pool shrinks back to its usual size after this long without a run.
SHRINK_SECONDS = 60.0


@dataclass(frozen=True)
class WorkerView:
    """A worker pod that its pool calls running, and what its agent said last."""

    name: str
    busy: bool
    seen_at: float


@dataclass(frozen=True)
class RankView:
    """A rank of the attempt that is going on."""

    rank: int
    worker: str
    stopping: bool
    exit_code: int | None
    exited_at: float | None
    streams_complete: bool
    """Whether all bytes that its process wrote are held."""
    seen_at: float
    """When its agent was last heard of; when it was assigned, if never."""
    forgotten: bool
    """Whether its agent knows nothing of it any more, though it did."""


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
    delivery: Delivery | None
    """What was counted once everything was delivered."""


@dataclass(frozen=True)
class World:
    """Everything that the controller looks at."""

    now: float
    run: RunView | None
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
class CloseStreams:
    """Take what is held of a lost rank's streams as all that there will be."""

    run_id: int
    attempt: int
    rank: int


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


Action = Scale | Assign | StopRanks | CloseStreams | Count | End


def decide(world: World) -> list[Action]:
    """Return what is to be done now. Doing it twice must do no harm."""
    run = world.run
    actions: list[Action] = [Scale(_pool_size(world))]
    if run is None:
        return actions
    if not run.ranks:
        return actions + _begin(run, world)
    if not all(_is_over(rank, world.now) for rank in run.ranks):
        return actions + _watch(run, world.now)
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
    """Give out the ranks of the next attempt, once there are workers for all of them."""
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    free = [w.name for w in world.workers if not w.busy and world.now - w.seen_at < FRESH_SECONDS]
    if len(free) >= run.num_workers:
        return [Assign(run.id, run.attempt + 1, tuple(free[: run.num_workers]))]
    if run.attempt == 0 and world.now - run.created_at > START_SECONDS:
        reason = (
            f"only {len(free)} of {run.num_workers} workers were there within {START_SECONDS:.0f} s"
        )
        return [End(run.id, "FAILED", reason)]
    return []


def _watch(run: RunView, now: float) -> list[Action]:
    """While ranks are going on: stop them all as soon as one has failed, or the user says so."""
    must_stop = run.stop_requested or _failed(run.ranks, now)
    if must_stop and not all(rank.stopping for rank in run.ranks):
        return [StopRanks(run.id)]
    return []


def _conclude(run: RunView, world: World) -> list[Action]:
    """Once all ranks are over: another attempt, or count what was recorded and end the run."""
    failed = _failed(run.ranks, world.now)
    if failed and not run.stop_requested and run.attempt <= run.max_restarts:
        return _begin(run, world)
    if not run.delivered:
        lost = [rank for rank in run.ranks if _is_lost(rank, world.now)]
        return [CloseStreams(run.id, run.attempt, rank.rank) for rank in lost]
    if run.delivery is None:
        return [Count(run.id)]
    return [_end(run, failed, _disagreement(run.delivery), world.now)]


def _end(run: RunView, failed: Sequence[RankView], disagreement: str, now: float) -> End:
    if run.stop_requested:
        return End(run.id, "STOPPED", disagreement)
    if failed:
        cause = _first(failed)
        reasons = filter(None, [_describe(cause, now), disagreement])
        return End(run.id, "FAILED", "; ".join(reasons), cause.rank)
    if disagreement:
        return End(run.id, "FAILED", disagreement)
    return End(run.id, "FINISHED")


def _is_lost(rank: RankView, now: float) -> bool:
    """Whether a rank can no longer tell us how it went, or all that it wrote."""
    complete = rank.exit_code is not None and rank.streams_complete
    return not complete and (rank.forgotten or now - rank.seen_at > LOST_SECONDS)


def _is_over(rank: RankView, now: float) -> bool:
    return (rank.exit_code is not None and rank.streams_complete) or _is_lost(rank, now)


def _failed(ranks: Sequence[RankView], now: float) -> list[RankView]:
    return [rank for rank in ranks if rank.exit_code or _is_lost(rank, now)]


def _first(failed: Sequence[RankView]) -> RankView:
    """Return the rank that failed first: the others failed because it did, or were stopped."""
    return min(failed, key=lambda rank: (rank.exited_at or rank.seen_at, rank.rank))


def _describe(rank: RankView, now: float) -> str:
    if rank.exit_code:
        return f"rank {rank.rank} on {rank.worker} {describe_exit(rank.exit_code)}"
    if rank.forgotten:
        return f"rank {rank.rank} is lost: the agent of {rank.worker} knows it no more"
    silence = now - rank.seen_at
    return f"rank {rank.rank} is lost: {rank.worker} was not heard of for {silence:.0f} s"


def _disagreement(delivery: Delivery) -> str:
    if delivery.agrees:
        return ""
    return (
        f"samples are missing: {delivery.recorded} recorded, "
        f"{delivery.in_prometheus} in Prometheus, {delivery.kept} kept"
    )
