"""What the controller sees: the database and the pool, read into one picture of the world."""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace

from master.controller.views import RankView, RunView, Warm, WorkerView, World
from master.database import snapshot
from master.hearing import Heard, clock, heard
from master.models import Pod, Rank, Run, Stream, Worker, run_owner
from master.pods import is_same_pod
from master.pools.base import RUNNING, PodStatus, Shape
from master.reading.counting import Counted
from master.recording.limits import has_room
from master.recording.streams import METRICS
from master.runs import deadline_at, find_active
from mlbench.names import STREAMS

# A controller that did not look for this long was away: killed, or asleep with its laptop.
_AWAY_SECONDS = 10.0
# What a rank sends once it is ending is looked at in steps of so many bytes: a trickle is no end.
_STEP_BYTES = 1 << 20
# Ten times a second, and of thousands of runs: no more is read than is needed.
_SHAPE = (Run.num_workers, Run.num_cpus, Run.max_bandwidth, Run.gpu_enabled, Run.image)


class Stopwatch:
    """Knows for how long something was seen without a pause."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}
        self._looked_at = float("-inf")

    def look(self, now: float, *seen: Hashable) -> list[float]:
        """Return for how many seconds each of these was seen without a pause, up to now."""
        since = self._since if now - self._looked_at <= _AWAY_SECONDS else {}
        self._since = {one: since.get(one, now) for one in seen}
        self._looked_at = now
        return [now - self._since[one] for one in seen]


@dataclass(frozen=True)
class Attention:
    """Knows for how long the controller has seen what it sees."""

    clock: Callable[[], float] = clock
    """One that nobody sets."""
    by_clock: Stopwatch = field(default_factory=Stopwatch)
    by_hearing: Stopwatch = field(default_factory=Stopwatch)
    """In seconds in which the master could hear its agents."""


@dataclass(frozen=True)
class Habits:
    """What the pool is to be like when nothing is said, and how long anything is waited for."""

    usual_workers: int
    start_seconds: float
    """How long a run waits for its workers."""
    idle_seconds: float
    """How long the workers of the last run are kept."""
    spool_bytes: int
    """How many bytes of samples may wait for Prometheus."""


def observe(
    pods: list[PodStatus], habits: Habits, attention: Attention, waits_for: str = ""
) -> World:
    """Return what is, at one moment; ``waits_for`` is why more pods are not there."""
    # One transaction: agents report meanwhile, and half of a report would look like a lost rank.
    with snapshot():
        run = find_active()
        seen = {worker.name: worker for worker in Worker.select()}
        ended = Run.select(Run.id, Run.attempt, Run.finished_at, *_SHAPE).where(
            Run.finished_at.is_null(False)
        )
        last = ended.order_by(Run.finished_at.desc()).first()
        ears, now = heard(), time.time()
        view = _view_run(run, seen, {pod.name: pod for pod in pods}, ears) if run else None
        looked, started, waited, idle = attention.by_clock.look(
            attention.clock(),
            "looking",
            ("started", run.id if run and run.started_at else None),
            _progress(view),
            ("idle", last.id if last and not run else None),
        )
        if run and view:
            ranks = _time_endings(view, ears, attention, habits.spool_bytes)
            view = replace(view, overdue=_overdue(run, now, looked, started), ranks=ranks)
        return World(
            waited=waited,
            # A clock that was set back makes it no longer, a controller that just came no shorter.
            idle=max(idle, now - last.finished_at) if last and not run else 0.0,
            run=view,
            unwanted=_unwanted(run),
            workers=tuple(_view_workers(pods, seen, run, ears)),
            waits_for=waits_for,
            warm=_view_warm(last),
            usual_workers=habits.usual_workers,
            start_seconds=habits.start_seconds,
            idle_seconds=habits.idle_seconds,
        )


def _progress(run: RunView | None) -> Hashable:
    """Return how far a run is: what it waits for changes with that."""
    if run is None:
        return None
    return run.id, run.attempt, bool(run.ranks), all(rank.over for rank in run.ranks)


def _time_endings(
    run: RunView, ears: Heard, attention: Attention, spool_bytes: int
) -> tuple[RankView, ...]:
    """Return the ranks with how long they have been ending, and without sending anything more.

    Time counts in which the master could hear them, and take what they send.
    """
    ending = [rank for rank in run.ranks if not rank.over and (rank.stopping or rank.exited)]
    if ending and not has_room(spool_bytes):
        ending = []
    of = (run.id, run.attempt)
    seconds = attention.by_hearing.look(
        ears.seconds,
        *((*of, rank.rank, "ending") for rank in ending),
        *((*of, rank.rank, rank.exited, rank.held // _STEP_BYTES) for rank in ending),
    )
    times = zip(seconds[: len(ending)], seconds[len(ending) :], strict=True)
    by_rank = {rank.rank: one for rank, one in zip(ending, times, strict=True)}
    return tuple(
        replace(rank, ending=by_rank[rank.rank][0], stuck=by_rank[rank.rank][1])
        if rank.rank in by_rank
        else rank
        for rank in run.ranks
    )


def _overdue(run: Run, now: float, looked: float, started: float) -> float:
    """Return for how long a run was seen to be past its deadline; below 0, it is not.

    By the clock of this machine, by which tasks go too; and where that was set back, by how long
    the run has been seen to go on.
    """
    due_at = deadline_at(run)
    if due_at is None or run.deadline_seconds is None:
        return -math.inf
    return max(min(now - due_at, looked), started - run.deadline_seconds)


def _view_workers(
    pods: list[PodStatus], seen: dict[str, Worker], run: Run | None, ears: Heard
) -> Iterator[WorkerView]:
    """Yield the workers that can be given a rank, once their agents have said that they are in."""
    # What speaks of it already, speaks of one that a lost database knew.
    to_come = (run.id, run.attempt + 1) if run else None
    for pod in pods:
        worker = seen.get(pod.name)
        if worker is None or pod.phase != RUNNING or not pod.usable:
            continue
        if is_same_pod(pod.uid, worker.pod_uid):
            busy = worker.state == "running" or (worker.run_id, worker.attempt) == to_come
            # Those of before a pause may have gone in it.
            silent = ears.seconds - worker.heard if worker.heard >= ears.since else math.inf
            yield WorkerView(pod.name, pod.number, busy, silent)


def _view_warm(last: Run | None) -> Warm | None:
    if last is None or last.attempt == 0:
        return None
    return Warm(last.num_workers, _shape(last))


def _shape(run: Run) -> Shape:
    return Shape(run.num_cpus, run.max_bandwidth, run.gpu_enabled, run.image)


def _unwanted(run: Run | None) -> tuple[int, ...]:
    """Return the runs in the queue behind a run that are to be stopped."""
    if run is None:
        return ()
    queued = Run.select(Run.id).where(
        Run.id > run.id, Run.stop_requested, Run.state == "INITIALIZED"
    )
    return tuple(one.id for one in queued.order_by(Run.id))


def store_pods(pods: list[PodStatus]) -> None:
    """Make the table of pods say what the pool says, for the API to read."""
    columns = ("name", "uid", "phase", "ip", "node", "labels")
    rows = {pod.name: {column: getattr(pod, column) for column in columns} for pod in pods}
    stored = {row["name"]: row for row in Pod.select().dicts().execute()}
    for name in stored.keys() - rows.keys():
        Pod.delete_by_id(name)
    for name, row in rows.items():
        if row != stored.get(name):
            Pod.insert(row).on_conflict(conflict_target=[Pod.name], update=row).execute()


def _view_run(
    run: Run, seen: dict[str, Worker], pods: dict[str, PodStatus], ears: Heard
) -> RunView:
    owner = run_owner(run.id)
    streams = list(Stream.select().where(Stream.owner == owner))
    ranks = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt).order_by(Rank.rank)
    return RunView(
        id=run.id,
        attempt=run.attempt,
        num_workers=run.num_workers,
        shape=_shape(run),
        max_restarts=run.max_restarts,
        stop_requested=run.stop_requested,
        deadline_seconds=run.deadline_seconds,
        overdue=-math.inf,
        waiting=run.waiting or "",
        stop_reason=run.reason,
        ranks=tuple(
            _view_rank(rank, run, streams, seen.get(rank.worker), pods.get(rank.worker), ears)
            for rank in ranks
        ),
        # Not those that users post: they may go on posting for ever.
        delivered=all(s.delivered == s.size for s in streams if s.name == METRICS),
        delivery=Counted(**run.delivery) if run.delivery else None,
    )


def _view_rank(
    rank: Rank,
    run: Run,
    streams: list[Stream],
    worker: Worker | None,
    pod: PodStatus | None,
    ears: Heard,
) -> RankView:
    own = [s for s in streams if (s.attempt, s.rank) == (rank.attempt, rank.rank)]
    knows = worker is not None and (worker.run_id, worker.attempt) == (run.id, run.attempt)
    return RankView(
        rank=rank.rank,
        worker=rank.worker,
        pod_uid=rank.pod_uid or "",
        reported=rank.reported,
        stopping=rank.stop,
        exit_code=rank.exit_code,
        exited_at=rank.exited_at,
        held=sum(stream.size for stream in own),
        streams_complete=len([s for s in own if s.size == s.final_size]) == len(STREAMS),
        seen_at=max(rank.assigned_at, worker.seen_at if worker else 0.0),
        silent=ears.seconds - (worker.heard if worker else 0),
        forgotten=rank.reported and not knows,
        replaced=worker is not None and not is_same_pod(rank.pod_uid, worker.pod_uid),
        trouble=_trouble(rank, pod),
        lost=rank.lost,
        failure=rank.failure,
    )


def _trouble(rank: Rank, pod: PodStatus | None) -> str:
    """Return what is wrong with a rank's pod; what was wrong before the rank is not its business.

    Clusters tell times in whole seconds.
    """
    if pod is None or not is_same_pod(rank.pod_uid, pod.uid):
        return ""
    return pod.trouble if pod.troubled_at > rank.assigned_at - 1 else ""
