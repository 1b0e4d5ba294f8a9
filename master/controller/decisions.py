"""What the controller decides: from what is and what should be to a list of actions.

No clock, no network, no database: everything comes in as an argument, so every case can be tested.
"""

from collections.abc import Sequence

from master.controller.actions import Action, Assign, Count, End, StopRanks, Wait, WriteOff
from master.controller.sizing import wanted_pool
from master.controller.views import RankView, RunView, World
from master.exits import describe_exit
from master.reading.counting import Counted

# A worker that was not heard of for this long, while the master could have heard it, is lost.
LOST_SECONDS = 30.0
# A worker must have been heard of this lately to be given a rank. A thousand poll every 5 s.
FRESH_SECONDS = 10.0
# A rank that its worker, heard of as it is, has not begun by then is lost.
BEGIN_SECONDS = 120.0
# A rank that is to stop or has exited, and from which nothing more comes for so long, is lost.
STUCK_SECONDS = 60.0
# A rank that was told to stop is lost by then, however much still comes.
STOP_SECONDS = 600.0
# What has not ended by itself this long after its deadline is stopped: a share of the deadline, but
# at least so many seconds. Until then it may evaluate what it has.
DEADLINE_GRACE = 0.1
DEADLINE_GRACE_SECONDS = 30.0
# A run that failed or was stopped waits so long for its count: without one, Prometheus is away.
COUNT_SECONDS = 5.0


def decide(world: World) -> list[Action]:
    """Return what is to be done now. Doing it twice must do no harm."""
    run = world.run
    actions: list[Action] = [wanted_pool(world)]
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


def _begin(run: RunView, world: World) -> list[Action]:
    """Give out the ranks of the first attempt, once there are workers for all of them."""
    if run.stop_requested:
        return [End(run.id, "STOPPED")]
    if begin := _assign(run, world):
        return begin
    if world.waited > world.start_seconds:
        return [End(run.id, "FAILED", _shortage(run, world))]
    return _wait(run, world)


def _assign(run: RunView, world: World) -> list[Action]:
    free = _free_workers(world)
    if len(free) < run.num_workers:
        return []
    return [Assign(run.id, run.attempt + 1, tuple(free[: run.num_workers]))]


def _free_workers(world: World) -> list[str]:
    """Return the workers that can be given a rank: not those that the pool is about to end."""
    size = wanted_pool(world).workers
    return [
        w.name for w in world.workers if not w.busy and w.number < size and w.silent < FRESH_SECONDS
    ]


def _wait(run: RunView, world: World) -> list[Action]:
    """Have the run say what it waits for, if it says anything else."""
    there = len(_free_workers(world))
    why = world.waits_for or f"{there} of {run.num_workers} workers are there"
    return [Wait(run.id, why)] if why != run.waiting else []


def _shortage(run: RunView, world: World) -> str:
    there, within = len(_free_workers(world)), f"within {world.start_seconds:.0f} s"
    count = f"only {there} of {run.num_workers} workers were there {within}"
    return _join(count, world.waits_for)


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
    if rank.replaced:
        return f"another pod has taken the place of {rank.worker}"
    if rank.forgotten:
        return _join(f"the agent of {rank.worker} knows it no more", rank.trouble)
    # The attempt is young, or the controller has just come: its agent gets its time to be heard.
    if min(rank.silent, world.waited) > LOST_SECONDS:
        silence = f"{rank.worker} was not heard of for {rank.silent:.0f} s"
        return _join(silence, rank.trouble)
    if not rank.reported and world.waited > BEGIN_SECONDS:
        late = f"{rank.worker} did not begin it within {BEGIN_SECONDS:.0f} s"
        return _join(late, rank.trouble)
    return _why_without_end(rank)


def _why_without_end(rank: RankView) -> str:
    """Return why a rank is given up whose agent is heard of, but never lets it come to an end."""
    if rank.exited and rank.stuck > STUCK_SECONDS:
        return f"the rest of what it wrote did not come from {rank.worker} in {STUCK_SECONDS:.0f} s"
    if rank.stopping and not rank.exited and rank.ending > STUCK_SECONDS:
        return f"{rank.worker} did not end it within {STUCK_SECONDS:.0f} s of being told to"
    if rank.stopping and rank.ending > STOP_SECONDS:
        return (
            f"{rank.worker} was not done with it {STOP_SECONDS:.0f} s after being told to stop it"
        )
    return ""


def _watch(run: RunView) -> list[Action]:
    """While ranks go on: stop them all if one has failed, the user says so, or time is over."""
    if all(rank.stopping for rank in run.ranks):
        return []
    if run.stop_requested or _failed(run):
        return [StopRanks(run.id)]
    if _is_overdue(run):
        return [StopRanks(run.id, f"stopped at its deadline of {run.deadline_seconds:.15g} s")]
    return []


def _is_overdue(run: RunView) -> bool:
    """Return whether it goes on long after its deadline: it does not know of it, or hangs."""
    if run.deadline_seconds is None:
        return False
    return run.overdue > max(DEADLINE_GRACE_SECONDS, DEADLINE_GRACE * run.deadline_seconds)


def _conclude(run: RunView, world: World) -> list[Action]:
    """Once all ranks are over: another attempt, or count what was recorded and end the run."""
    if _may_restart(run):
        if begin := _assign(run, world):
            return begin
        if world.waited <= world.start_seconds:
            return _wait(run, world)
    if _may_end_uncounted(run, world):
        return [_end(run, run.delivery, world)]
    if not run.delivered:
        return []
    if run.delivery is None:
        return [Count(run.id)]
    return [_end(run, run.delivery, world)]


def _may_end_uncounted(run: RunView, world: World) -> bool:
    """Return whether a run need not wait for Prometheus any longer: what it lacks comes later."""
    return bool(run.stop_requested or _failed(run)) and world.waited > COUNT_SECONDS


def _may_restart(run: RunView) -> bool:
    attempts_left = run.attempt <= run.max_restarts
    return bool(_failed(run)) and not run.stop_requested and attempts_left and run.overdue < 0


def _end(run: RunView, delivery: Counted | None, world: World) -> End:
    disagreement = delivery.disagreement if delivery else ""
    if run.stop_requested:
        return End(run.id, "STOPPED", disagreement)
    if failed := _failed(run):
        cause = _first(failed)
        shortage = f"no restart: {_shortage(run, world)}" if _may_restart(run) else ""
        reason = _join(run.stop_reason, _describe(cause), shortage, disagreement)
        return End(run.id, "FAILED", reason, cause.rank)
    if disagreement:
        return End(run.id, "FAILED", _join(run.stop_reason, disagreement))
    return End(run.id, "FINISHED", run.stop_reason)


def _join(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _failed(run: RunView) -> list[RankView]:
    """Return the ranks that failed: not those that ended badly as they were stopped in time."""
    return [
        rank
        for rank in run.ranks
        if rank.lost or rank.failure or (rank.exit_code and not run.stop_reason)
    ]


def _first(failed: Sequence[RankView]) -> RankView:
    """Return the rank that failed first: the others failed because it did, or were stopped.

    One whose agent says why goes before: it was running on when that was found.
    """
    return min(failed, key=lambda rank: (not rank.failure, rank.exited_at or 0.0, rank.rank))


def _describe(rank: RankView) -> str:
    if rank.failure:
        return f"rank {rank.rank} on {rank.worker}: {rank.failure}"
    if rank.exit_code:
        return f"rank {rank.rank} on {rank.worker} {describe_exit(rank.exit_code)}"
    return f"rank {rank.rank} is lost: {rank.lost}"
