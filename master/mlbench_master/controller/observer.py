"""Observe the world: read the database and the pool's pods into what decisions are made from."""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, replace
from typing import NamedTuple

from mlbench.contract.clock import steady_seconds
from mlbench.contract.runspec import WorkerSpec, part
from mlbench_master.controller.world import (
    PoolPolicy,
    RankView,
    RunView,
    WarmPool,
    WorkerView,
    World,
)
from mlbench_master.database.connection import database, run_sql, snapshot
from mlbench_master.database.models import Pod, Rank, Run, Worker, run_owner
from mlbench_master.pools.base import RUNNING, PodStatus, is_same_pod
from mlbench_master.reading.counting import SampleCounts
from mlbench_master.recording.limits import has_room
from mlbench_master.recording.streams import METRICS
from mlbench_master.runs import autopsies
from mlbench_master.runs.life import deadline_at, find_next, find_recorded
from mlbench_master.runs.reachability import Reachability, read_reachability

# After a pause this long the controller was killed or its laptop slept: stopwatches begin anew.
_PAUSE_SECONDS = 10.0
# A rank's streams make progress in steps of this size: a trickle must not delay its end.
_STEP_BYTES = 1 << 20
# This is read ten times a second, with thousands of runs stored: no column more than needed.
# As plain rows: for a thousand ranks, peewee's own way to make some takes ten times as long.
_RANK = (
    *(Rank.rank, Rank.worker, Rank.pod_uid, Rank.reported, Rank.stop, Rank.exit_code),
    *(Rank.exited_at, Rank.assigned_at, Rank.lost, Rank.failure, Rank.processes.is_null(False)),
)
_WORKER = (
    *(Worker.name, Worker.state, Worker.run_id, Worker.attempt, Worker.pod_uid),
    *(Worker.seen_at, Worker.heard),
)
_HELD = """
    SELECT rank, SUM(size), SUM(CASE WHEN size = final_size THEN 0 ELSE 1 END) FROM stream
    WHERE owner = ? AND attempt = ? GROUP BY rank
"""
_WAITS = "SELECT 1 FROM stream WHERE owner = ? AND name = ? AND delivered <> size LIMIT 1"
_LOOKING = "looking"
_SHAPE = (Run.num_workers, *(getattr(Run, field.name) for field in fields(WorkerSpec)))


class _RankRow(NamedTuple):
    rank: int
    worker: str
    pod_uid: str | None
    reported: bool
    stop: bool
    exit_code: int | None
    exited_at: float | None
    assigned_at: float
    lost: str
    failure: str
    has_several: bool


class _WorkerRow(NamedTuple):
    name: str
    state: str
    run_id: int | None
    attempt: int | None
    pod_uid: str
    seen_at: float
    heard: float


class Stopwatch:
    """Measures for how long each thing has been seen without interruption."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}
        self._looked_at = float("-inf")

    def look(self, now: float, *seen: Hashable) -> Mapping[Hashable, float]:
        """Note the things that are seen now, and return for how many seconds each has been."""
        since = self._since if now - self._looked_at <= _PAUSE_SECONDS else {}
        self._since = {one: since.get(one, now) for one in seen}
        self._looked_at = now
        return {one: now - at for one, at in self._since.items()}


class Observer:
    """Observes the world, and remembers for how long it has been as it is."""

    def __init__(
        self,
        policy: PoolPolicy,
        spool_bytes: int,
        cores: tuple[int, ...] | None = None,
        monotonic: Callable[[], float] = steady_seconds,
    ) -> None:
        """Begin to observe a pool; ``spool_bytes`` of samples may wait for Prometheus."""
        self._policy = policy
        self._spool_bytes = spool_bytes
        self._cores = cores
        self._monotonic = monotonic
        self._by_clock = Stopwatch()
        # Counts only the seconds in which the master could hear its agents.
        self._by_hearing = Stopwatch()

    def observe(self, pods: list[PodStatus], waits_for: str = "") -> World:
        """Return the world at one moment; ``waits_for`` says why more pods are not there."""
        # In one transaction: half of an agent's report would look like a lost rank.
        with snapshot():
            runs, recorded = find_next(self._policy.concurrent_runs), find_recorded()
            ended = Run.select(Run.id, Run.attempt, Run.finished_at, *_SHAPE).where(
                Run.finished_at.is_null(False), Run.launcher == ""
            )
            last = ended.order_by(Run.finished_at.desc()).first()
            rows = map(_WorkerRow._make, database.execute(Worker.select(*_WORKER)))
            workers = {worker.name: worker for worker in rows}
            reachable, now = read_reachability(), time.time()
            active = [*runs, *recorded]
            views = [_view_run(run, workers, pods, reachable) for run in active]
            idle = "idle", last.id if last and not runs else None
            seen = (idle, *map(_started, active), *map(_phase, views), *map(_written, views))
            times = self._by_clock.look(self._monotonic(), _LOOKING, *seen)
            views = [
                replace(
                    view,
                    overdue=_overdue(run, now, times),
                    waited=times[_phase(view)],
                    quiet=times[_written(view)],
                )
                for run, view in zip(active, views, strict=True)
            ]
            views = self._time_endings(views, reachable)
            views, others = views[: len(runs)], views[len(runs) :]
            if self._cores is not None and len(views) > 1 and not views[-1].ranks:
                views = [replace(view, cores=_cores_of(view)) for view in views]
            return World(
                policy=self._policy,
                runs=tuple(views),
                recorded=tuple(others),
                stopped_in_queue=_stopped_in_queue(runs),
                workers=tuple(_view_workers(pods, workers, runs, reachable)),
                waits_for=waits_for,
                warm=WarmPool(last.num_workers, part(WorkerSpec, last))
                if last and last.attempt
                else None,
                # Right even if the system clock was set back, or the controller has just started.
                idle=max(times[idle], now - last.finished_at) if last and not runs else 0.0,
                cores=self._cores,
            )

    def _time_endings(self, runs: list[RunView], reachable: Reachability) -> list[RunView]:
        """Return the runs with ``ending`` and ``stuck`` of their ranks.

        Time counts only while the master can hear the agents, and take what they send.
        """
        ending = {
            (run.id, run.attempt, rank.rank): (rank.exited, rank.held // _STEP_BYTES)
            for run in runs
            for rank in run.ranks
            if not rank.over and (rank.stopping or rank.exited)
        }
        if ending and not has_room(self._spool_bytes):
            ending = {}
        times = self._by_hearing.look(reachable.seconds, *ending, *ending.items())

        def timed(run: RunView, rank: RankView) -> RankView:
            its = run.id, run.attempt, rank.rank
            if its not in ending:
                return rank
            return replace(rank, ending=times[its], stuck=times[its, ending[its]])

        return [replace(run, ranks=tuple(timed(run, rank) for rank in run.ranks)) for run in runs]


def store_pods(pods: list[PodStatus]) -> None:
    """Write the pool's pods into the table that the API reads."""
    columns = ("name", "uid", "phase", "ip", "node", "labels")
    rows = {pod.name: {column: getattr(pod, column) for column in columns} for pod in pods}
    of_pool = Pod.select(*(getattr(Pod, column) for column in columns)).where(~Pod.external)
    stored = {row["name"]: row for row in of_pool.dicts().execute()}
    for name in stored.keys() - rows.keys():
        Pod.delete_by_id(name)
    for name, row in rows.items():
        if row != stored.get(name):
            Pod.insert(row).on_conflict(conflict_target=[Pod.name], update=row).execute()


def _started(run: Run) -> Hashable:
    return "started", run.id if run.started_at else None


def _phase(run: RunView) -> Hashable:
    """Return the phase of a run: it waits for something else in each."""
    return run.id, run.attempt, bool(run.ranks), all(rank.over for rank in run.ranks)


def _written(run: RunView) -> Hashable:
    """Return how much of what a run's ranks write is there."""
    return run.id, run.attempt, "written", sum(rank.held for rank in run.ranks)


def _overdue(run: Run, now: float, times: Mapping[Hashable, float]) -> float:
    """Return for how many seconds the run was seen past its deadline; negative before it.

    By the system clock, as tasks know it; if that was set back, by the time since the start.
    """
    due_at = deadline_at(run)
    if due_at is None or run.deadline_seconds is None:
        return -math.inf
    return max(min(now - due_at, times[_LOOKING]), times[_started(run)] - run.deadline_seconds)


def _view_workers(
    pods: list[PodStatus], workers: dict[str, _WorkerRow], runs: list[Run], reachable: Reachability
) -> Iterator[WorkerView]:
    """Yield the workers that can be given a rank, if their agents have reported from this pod."""
    # After the loss of a database, agents may still report a run of the same id.
    next_attempts = {(run.id, run.attempt + 1) for run in runs}
    for pod in pods:
        worker = workers.get(pod.name)
        if worker is None or pod.phase != RUNNING or not pod.usable:
            continue
        if is_same_pod(pod.uid, worker.pod_uid):
            busy = worker.state == "running" or (worker.run_id, worker.attempt) in next_attempts
            # An agent heard before a pause may have gone in it.
            silent = (
                reachable.seconds - worker.heard if worker.heard >= reachable.since else math.inf
            )
            yield WorkerView(pod.name, pod.number, busy, silent)


def _stopped_in_queue(before: list[Run]) -> tuple[int, ...]:
    if not before:
        return ()
    queue = Run.select(Run.id).where(Run.id > before[-1].id, Run.state == "INITIALIZED")
    return tuple(one.id for one in queue.where(Run.stop_requested).order_by(Run.id))


def _cores_of(run: RunView) -> frozenset[int]:
    ranks = Rank.select(Rank.assignment).where(Rank.run == run.id, Rank.attempt == run.attempt)
    return frozenset(core for rank in ranks for core in rank.assignment["cpus"])


def _view_run(
    run: Run, workers: dict[str, _WorkerRow], pods: list[PodStatus], reachable: Reachability
) -> RunView:
    by_name = {pod.name: pod for pod in pods}
    selected = Rank.select(*_RANK).where(Rank.run == run.id, Rank.attempt == run.attempt)
    # Before its streams: those of a rank that has exited are all there.
    ranks = [*map(_RankRow._make, database.execute(selected.order_by(Rank.rank)))]
    held = run_sql(_HELD, run_owner(run.id), run.attempt).fetchall()
    held_of = {rank: (int(size), int(open_)) for rank, size, open_ in held}
    waiting = run_sql(_WAITS, run_owner(run.id), METRICS).fetchone()
    ends = run.stop_requested or any(rank.exit_code for rank in ranks)
    asked = [a for a in autopsies.asked_of(run.id) if a.attempt == run.attempt] if ends else []
    return RunView(
        id=run.id,
        attempt=run.attempt,
        num_workers=run.num_workers,
        shape=part(WorkerSpec, run),
        max_restarts=run.max_restarts,
        stop_requested=run.stop_requested,
        deadline_seconds=run.deadline_seconds,
        waiting=run.waiting or "",
        stop_reason=run.reason,
        ranks=tuple(
            _view_rank(
                rank,
                run,
                *held_of.get(rank.rank, (0, 0)),
                workers.get(rank.worker),
                by_name.get(rank.worker),
                reachable,
            )
            for rank in ranks
        ),
        # Without the samples that users post: they may go on posting for ever.
        delivered=waiting is None,
        delivery=SampleCounts(**run.delivery) if run.delivery else None,
        asked=time.time() - asked[-1].asked_at if asked else math.inf,
        answered=bool(asked) and autopsies.is_done(asked[-1]),
    )


def _view_rank(
    rank: _RankRow,
    run: Run,
    held: int,
    open_streams: int,
    worker: _WorkerRow | None,
    pod: PodStatus | None,
    reachable: Reachability,
) -> RankView:
    reports_it = worker is not None and (worker.run_id, worker.attempt) == (run.id, run.attempt)
    return RankView(
        rank=rank.rank,
        worker=rank.worker,
        pod_uid=rank.pod_uid or "",
        reported=bool(rank.reported),
        stopping=bool(rank.stop),
        exit_code=rank.exit_code,
        exited_at=rank.exited_at,
        held=held,
        streams_complete=not open_streams,
        seen_at=max(rank.assigned_at, worker.seen_at if worker else 0.0),
        silent=reachable.seconds - (worker.heard if worker else 0),
        forgotten=bool(rank.reported) and not reports_it,
        replaced=worker is not None and not is_same_pod(rank.pod_uid, worker.pod_uid),
        trouble=_trouble(rank, pod),
        lost=rank.lost,
        failure=rank.failure,
        has_several=bool(rank.has_several),
    )


def _trouble(rank: _RankRow, pod: PodStatus | None) -> str:
    """Return the trouble of a rank's pod, unless that was before the rank came to it."""
    if pod is None or not is_same_pod(rank.pod_uid, pod.uid):
        return ""
    # Clusters give times in whole seconds.
    return pod.trouble if pod.troubled_at > rank.assigned_at - 1 else ""
