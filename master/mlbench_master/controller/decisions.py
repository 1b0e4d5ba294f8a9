"""The decisions of the controller: from the world as it is to a list of actions.

Pure functions: no clock, no network, no database.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from mlbench.runspec import WorkerSpec
from mlbench_master.controller.actions import (
    Action,
    Assign,
    Count,
    End,
    MarkLost,
    Scale,
    StopRanks,
    Wait,
)
from mlbench_master.controller.room import find_room
from mlbench_master.controller.world import RankView, RunView, World
from mlbench_master.reading.counting import SampleCounts
from mlbench_master.runs.events import describe_exit

# A worker that was silent for this long, while the master could hear it, is lost.
LOST_SECONDS = 30.0
# A worker that was silent for this long gets no rank. A thousand workers poll every 5 s.
FRESH_SECONDS = 10.0
# A rank that its agent has not begun by then is lost.
BEGIN_SECONDS = 120.0
# A rank that is told to stop or has exited is lost if nothing more comes from it for this long.
STUCK_SECONDS = 60.0
# A rank that is told to stop is lost by then, however much still comes.
STOP_SECONDS = 600.0
# A run is stopped this long after its deadline, if it has not ended by itself: a share of the
# deadline, but at least so many seconds. Until then it may evaluate what it has.
DEADLINE_GRACE = 0.1
DEADLINE_GRACE_SECONDS = 30.0
# A failed or stopped run waits this long for its count: Prometheus may be away.
COUNT_SECONDS = 5.0


def decide(world: World) -> list[Action]:
    """Decide on the next actions. Carrying them out twice is harmless."""
    actions: list[Action] = [size_pool(world)]
    actions += [End(run_id, "STOPPED") for run_id in world.stopped_in_queue]
    given: set[str] = set()
    for run in world.runs:
        of_run = _decide_for(run, world, given)
        given.update(name for one in of_run if isinstance(one, Assign) for name in one.workers)
        actions += of_run
    return actions


def _decide_for(run: RunView, world: World, given: AbstractSet[str]) -> list[Action]:
    """Decide on one run; workers that are ``given`` away are not there for it."""
    if not run.ranks:
        return _begin(run, world, given)
    if all(rank.over for rank in run.ranks):
        return _conclude(run, world, given)
    return _find_lost(run) or _watch(run)


def size_pool(world: World) -> Scale:
    """Return the pool that the runs need; after them, the same for a while, then the default one.

    Runs that go on at a time have workers of one shape, where that is the pool's.
    """
    fewest = world.policy.min_workers
    if world.runs:
        # Workers stay until the run ends, as its checkpoints lie with them; lost ones need not.
        held = [rank for run in world.runs for rank in run.ranks if not rank.lost]
        # The pool shrinks from the highest number down, which is at the end of a worker's name.
        numbers = [rank.worker.rpartition("-")[2] for rank in held]
        highest = max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
        busy = frozenset(rank.pod_uid for rank in held)
        there = [run for run in world.runs if run.ranks or find_room(run, world).shares is not None]
        wanted = sum(run.num_workers for run in there)
        return Scale(max(fewest, wanted, highest), world.runs[0].shape, busy)
    if world.warm is not None and world.idle < world.policy.idle_seconds:
        return Scale(max(fewest, world.warm.num_workers), world.warm.shape)
    return Scale(fewest, WorkerSpec())


def _begin(run: RunView, world: World, given: AbstractSet[str]) -> list[Action]:
    """Begin the first attempt once there is room, and workers for all ranks."""
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    room = find_room(run, world)
    if room.shares is None:
        return _wait(run, room.lacks)
    free = _free_workers(run, world, given)
    if len(free) >= run.num_workers:
        return [Assign(run.id, run.attempt + 1, free, room.shares)]
    # Beside others, it waits until they have ended.
    if run.waited > world.policy.start_seconds and len(world.runs) == 1:
        return [End(run.id, "FAILED", _shortage(run, world, free))]
    return _wait(run, _lacking(run, world, free))


def _free_workers(run: RunView, world: World, given: AbstractSet[str]) -> tuple[str, ...]:
    """Return the workers that can be given a rank of a run, first those that it has had.

    Not those that the pool is about to end, nor those of another run.
    """
    size = size_pool(world).workers
    holders = {
        rank.worker: one.id for one in world.runs for rank in one.ranks if not rank.lost
    } | dict.fromkeys(given, 0)
    free = [
        w
        for w in world.workers
        if not w.busy
        and w.number < size
        and w.silent < FRESH_SECONDS
        and holders.get(w.name, run.id) == run.id
    ]
    free.sort(key=lambda w: w.name not in holders)
    return tuple(w.name for w in sorted(free[: run.num_workers], key=lambda w: w.number))


def _wait(run: RunView, why: str) -> list[Action]:
    return [Wait(run.id, why)] if why != run.waiting else []


def _lacking(run: RunView, world: World, free: Sequence[str]) -> str:
    return world.waits_for or f"{len(free)} of {run.num_workers} workers are there"


def _shortage(run: RunView, world: World, free: Sequence[str]) -> str:
    within = f"within {world.policy.start_seconds:.0f} s"
    count = f"only {len(free)} of {run.num_workers} workers were there {within}"
    return _join(count, world.waits_for)


def _find_lost(run: RunView) -> list[Action]:
    """Give up the ranks whose end, or whose whole output, will never be known.

    For good: the attempt has failed, even if the worker is heard of again.
    """
    return [
        MarkLost(run.id, run.attempt, rank.rank, rank.seen_at, why)
        for rank in run.ranks
        if not rank.over and (why := _why_lost(rank, run))
    ]


def _why_lost(rank: RankView, run: RunView) -> str:
    if rank.replaced:
        return f"another pod has taken the place of {rank.worker}"
    if rank.forgotten:
        return _join(f"the agent of {rank.worker} knows it no more", rank.trouble)
    # At the start of an attempt, or of the controller, agents get their time to report.
    if min(rank.silent, run.waited) > LOST_SECONDS:
        silence = f"{rank.worker} was not heard of for {rank.silent:.0f} s"
        return _join(silence, rank.trouble)
    if not rank.reported and run.waited > BEGIN_SECONDS:
        late = f"{rank.worker} did not begin it within {BEGIN_SECONDS:.0f} s"
        return _join(late, rank.trouble)
    return _why_stuck(rank)


def _why_stuck(rank: RankView) -> str:
    """Explain why a rank is given up although its agent still reports; empty if it is not."""
    if rank.exited and rank.stuck > STUCK_SECONDS:
        return f"the rest of what it wrote did not come from {rank.worker} in {STUCK_SECONDS:.0f} s"
    if rank.stopping and not rank.exited and rank.ending > STUCK_SECONDS:
        return f"{rank.worker} did not end it within {STUCK_SECONDS:.0f} s of being told to"
    if rank.stopping and rank.ending > STOP_SECONDS:
        return f"{rank.worker} was not done {STOP_SECONDS:.0f} s after being told to stop it"
    return ""


def _watch(run: RunView) -> list[Action]:
    """Stop all ranks once one has failed, the user says so, or the deadline is long past."""
    if all(rank.stopping for rank in run.ranks):
        return []
    if run.stop_requested or _failed(run):
        return [StopRanks(run.id)]
    deadline = run.deadline_seconds or 0.0
    if run.overdue > max(DEADLINE_GRACE_SECONDS, DEADLINE_GRACE * deadline):
        return [StopRanks(run.id, f"stopped at its deadline of {deadline:.15g} s")]
    return []


def _conclude(run: RunView, world: World, given: AbstractSet[str]) -> list[Action]:
    """Once all ranks are over: begin another attempt, or count the samples and end the run."""
    shortage = ""
    if _may_restart(run):
        free = _free_workers(run, world, given)
        if len(free) >= run.num_workers:
            return [Assign(run.id, run.attempt + 1, free)]
        if run.waited <= world.policy.start_seconds:
            return _wait(run, _lacking(run, world, free))
        shortage = f"no restart: {_shortage(run, world, free)}"
    needs_no_count = bool(run.stop_requested or _failed(run)) and run.waited > COUNT_SECONDS
    if needs_no_count or (run.delivered and run.delivery is not None):
        return [_end(run, run.delivery, shortage)]
    return [Count(run.id)] if run.delivered else []


def _may_restart(run: RunView) -> bool:
    attempts_left = run.attempt <= run.max_restarts
    return bool(_failed(run)) and not run.stop_requested and attempts_left and run.overdue < 0


def _end(run: RunView, delivery: SampleCounts | None, shortage: str) -> End:
    disagreement = delivery.disagreement if delivery else ""
    if run.stop_requested:
        return End(run.id, "STOPPED", disagreement)
    if failed := _failed(run):
        cause = _first(failed)
        reason = _join(run.stop_reason, _describe(cause), shortage, disagreement)
        # A stated failure needs no more words.
        return End(run.id, "FAILED", reason, None if cause.failure else cause.rank)
    if disagreement:
        return End(run.id, "FAILED", _join(run.stop_reason, disagreement))
    return End(run.id, "FINISHED", run.stop_reason)


def _join(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _failed(run: RunView) -> list[RankView]:
    """Return the ranks that failed. Exit codes do not count where the controller stopped them."""
    return [
        rank
        for rank in run.ranks
        if rank.lost or rank.failure or (rank.exit_code and not run.stop_reason)
    ]


def _first(failed: Sequence[RankView]) -> RankView:
    """Return the rank that failed first: the others failed because of it, or were stopped.

    One with a stated failure goes before: its process ran on after that.
    """
    return min(failed, key=lambda rank: (not rank.failure, rank.exited_at or 0.0, rank.rank))


def _describe(rank: RankView) -> str:
    if rank.failure:
        return f"{rank.place}: {rank.failure}"
    if rank.exit_code:
        return f"{rank.place} {describe_exit(rank.exit_code)}"
    return f"rank {rank.rank} is lost: {rank.lost}"
