"""The decisions of the controller: from the world as it is to a list of actions.

Pure functions: no clock, no network, no database.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.actions import Action, Assign, End, Scale, StopRanks
from mlbench_master.controller.ending import (
    count_or_end,
    failed_ranks,
    find_lost,
    join_reasons,
    stop_ranks,
    wait_for,
    why_gone,
    why_unfinished,
)
from mlbench_master.controller.recorded import decide_recorded
from mlbench_master.controller.room import find_room
from mlbench_master.controller.world import RankView, RunView, World

# A worker that was silent for this long, while the master could hear it, is lost.
LOST_SECONDS = 30.0
# A worker that was silent for this long gets no rank. A thousand workers poll every 5 s.
FRESH_SECONDS = 10.0
# A rank that its agent has not begun by then is lost.
BEGIN_SECONDS = 120.0
# A rank that is told to stop is lost if its process has not ended by then.
END_SECONDS = 60.0
# A rank that is told to stop is lost by then, however much still comes.
STOP_SECONDS = 600.0
# A run is stopped this long after its deadline, if it has not ended by itself: a share of the
# deadline, but at least so many seconds. Until then it may evaluate what it has.
DEADLINE_GRACE = 0.1
DEADLINE_GRACE_SECONDS = 30.0


def decide(world: World) -> list[Action]:
    """Decide on the next actions. Carrying them out twice is harmless."""
    actions: list[Action] = [size_pool(world)]
    actions += [End(run_id, "STOPPED") for run_id in world.stopped_in_queue]
    given: set[str] = set()
    for run in world.runs:
        of_run = _decide_for(run, world, given)
        given.update(*(action.workers for action in of_run if isinstance(action, Assign)))
        actions += of_run
    for run in world.recorded:
        actions += decide_recorded(run)
    return actions


def _decide_for(run: RunView, world: World, given: AbstractSet[str]) -> list[Action]:
    """Decide on one run; workers that are ``given`` away are not there for it."""
    if not run.ranks:
        return _begin(run, world, given)
    if all(rank.over for rank in run.ranks):
        return _conclude(run, world, given)
    return find_lost(run, _why_lost) or _watch(run)


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
        return wait_for(run, room.lacks)
    free = _free_workers(run, world, given)
    if len(free) >= run.num_workers:
        return [Assign(run.id, run.attempt + 1, free, room.shares)]
    # Beside others, it waits until they have ended.
    if run.waited > world.policy.start_seconds and len(world.runs) == 1:
        return [End(run.id, "FAILED", _shortage(run, world, free))]
    return wait_for(run, _lacking(run, world, free), has_room=True)


def _free_workers(run: RunView, world: World, given: AbstractSet[str]) -> tuple[str, ...]:
    """Return the workers that can be given a rank of a run, first those that it has had.

    Not those that the pool is about to end, nor those of another run.
    """
    size = size_pool(world).workers
    holders = {
        rank.worker: other.id for other in world.runs for rank in other.ranks if not rank.lost
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


def _lacking(run: RunView, world: World, free: Sequence[str]) -> str:
    return world.waits_for or f"{len(free)} of {run.num_workers} workers are there"


def _shortage(run: RunView, world: World, free: Sequence[str]) -> str:
    within = f"within {world.policy.start_seconds:.0f} s"
    count = f"only {len(free)} of {run.num_workers} workers were there {within}"
    return join_reasons(count, world.waits_for)


def _why_lost(rank: RankView, run: RunView) -> str:
    if gone := why_gone(rank):
        return gone
    # At the start of an attempt, or of the controller, agents get their time to report.
    if min(rank.silent, run.waited) > LOST_SECONDS:
        silence = f"{rank.worker} was not heard of for {rank.silent:.0f} s"
        return join_reasons(silence, rank.trouble)
    if not rank.reported and run.waited > BEGIN_SECONDS:
        late = f"{rank.worker} did not begin it within {BEGIN_SECONDS:.0f} s"
        return join_reasons(late, rank.trouble)
    return _why_stuck(rank)


def _why_stuck(rank: RankView) -> str:
    """Explain why a rank is given up although its agent still reports; empty if it is not."""
    if unfinished := why_unfinished(rank):
        return unfinished
    if rank.stopping and not rank.exited and rank.ending > END_SECONDS:
        return f"{rank.worker} did not end it within {END_SECONDS:.0f} s of being told to"
    if rank.stopping and rank.ending > STOP_SECONDS:
        return f"{rank.worker} was not done {STOP_SECONDS:.0f} s after being told to stop it"
    return ""


def _watch(run: RunView) -> list[Action]:
    """Stop all ranks once one has failed, the user says so, or the deadline is long past."""
    if all(rank.stopping for rank in run.ranks):
        return []
    if run.stop_requested or failed_ranks(run):
        return stop_ranks(run)
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
            return wait_for(run, _lacking(run, world, free))
        shortage = f"no restart: {_shortage(run, world, free)}"
    return count_or_end(run, shortage, run.waited)


def _may_restart(run: RunView) -> bool:
    attempts_left = run.attempt <= run.max_restarts
    return bool(failed_ranks(run)) and not run.stop_requested and attempts_left and run.overdue < 0
