"""Read the database and the pool's pods into the state that decisions are made from."""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain
from typing import NamedTuple

from peewee import fn

from mlbench.contract.clock import steady_seconds
from mlbench.contract.runspec import WorkerSpec, part
from mlbench_master.controller.observed_state import (
    ObservedState,
    PoolPolicy,
    RankView,
    RunView,
    WarmPool,
    WorkerView,
)
from mlbench_master.database.connection import database, run_sql, snapshot
from mlbench_master.database.models import Pod, Rank, Run, Worker, run_owner
from mlbench_master.pools.pool import RUNNING, PodStatus, is_same_pod
from mlbench_master.recording.limits import has_room
from mlbench_master.recording.streams import METRICS
from mlbench_master.runs import diagnoses
from mlbench_master.runs.lifecycle import deadline_at, find_external, find_next
from mlbench_master.runs.reachability import Reachability, read_reachability

# Progress of a rank's streams counts in steps of this size: a trickle must not delay its end.
_STEP_BYTES = 1 << 20
_SHAPE = (Run.num_workers, *(getattr(Run, field.name) for field in fields(WorkerSpec)))
# Columns of a rank by field of its view. No others, because they are read ten times a second.
_RANK = {
    **{"rank": Rank.rank, "worker": Rank.worker, "pod_uid": fn.COALESCE(Rank.pod_uid, "")},
    **{"reported": Rank.reported, "stopping": Rank.stop, "exit_code": Rank.exit_code},
    **{"exited_at": Rank.exited_at, "lost": Rank.lost, "failure": Rank.failure},
    "has_several": Rank.processes.is_null(False),
}


class _WorkerRow(NamedTuple):
    name: str
    state: str
    run_id: int | None
    attempt: int | None
    pod_uid: str
    seen_at: float
    heard: float


class Stopwatch:
    """Measures for how long each state has been observed without interruption."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}
        self._looked_at = float("-inf")

    def look(self, now: float, *states: Hashable) -> Mapping[Hashable, float]:
        """Note the present states, and return for how many seconds each has been observed."""
        # After a longer pause, the controller was killed or its laptop slept: stopwatches restart.
        since = self._since if now - self._looked_at <= 10.0 else {}
        self._since = {state: since.get(state, now) for state in states}
        self._looked_at = now
        return {state: now - at for state, at in self._since.items()}


class Observer:
    """Observes runs, ranks and workers, and measures how long their states last."""

    def __init__(
        self,
        policy: PoolPolicy,
        spool_bytes: int,
        cores: tuple[int, ...] | None = None,
        monotonic: Callable[[], float] = steady_seconds,
    ) -> None:
        """Prepare to observe a pool; ``spool_bytes`` limits the samples waiting for Prometheus."""
        self._policy = policy
        self._spool_bytes = spool_bytes
        self._cores = cores
        self._monotonic = monotonic
        self._by_clock = Stopwatch()
        # Counts only the seconds in which agents could reach the master.
        self._by_hearing = Stopwatch()
        self._idle = Stopwatch()

    def observe(self, pods: list[PodStatus], waits_for: str = "") -> ObservedState:
        """Return the state at one moment; ``waits_for``: why the pool has no more pods."""
        # One transaction, because half of an agent's report would look like a lost rank.
        with snapshot():
            runs, external = find_next(self._policy.concurrent_runs), find_external()
            ended = Run.select(Run.id, Run.attempt, Run.finished_at, *_SHAPE).where(
                Run.finished_at.is_null(False), Run.launcher == ""
            )
            last = ended.order_by(Run.finished_at.desc()).first()
            selected = Worker.select(*(getattr(Worker, name) for name in _WorkerRow._fields))
            rows = map(_WorkerRow._make, database.execute(selected))
            workers = {worker.name: worker for worker in rows}
            reachable, now = read_reachability(), time.time()
            views = [_view_run(run, workers, pods, reachable) for run in (*runs, *external)]
            views = self._add_durations([*runs, *external], views, reachable, now)
            views, external_views = views[: len(runs)], views[len(runs) :]
            if self._cores is not None and len(views) > 1 and not views[-1].ranks:
                for index, run in enumerate(runs):
                    current = (Rank.run == run.id) & (Rank.attempt == run.attempt)
                    ranks = Rank.select(Rank.assignment).where(current)
                    cores = frozenset(core for rank in ranks for core in rank.assignment["cpus"])
                    views[index] = replace(views[index], cores=cores)

            previous = last.id if last and not runs else None
            idle = self._idle.look(self._monotonic(), previous)[previous]
            stopped: list[Run] = []
            if runs:
                queue = Run.select(Run.id).where(Run.id > runs[-1].id, Run.state == "INITIALIZED")
                stopped = [*queue.where(Run.stop_requested).order_by(Run.id)]
            return ObservedState(
                policy=self._policy,
                runs=tuple(views),
                external=tuple(external_views),
                stopped_in_queue=tuple(run.id for run in stopped),
                workers=tuple(_view_workers(pods, workers, runs, reachable)),
                waits_for=waits_for,
                warm=WarmPool(last.num_workers, part(WorkerSpec, last))
                if last and last.attempt
                else None,
                # Right even if the system clock was set back, or the controller just started.
                idle=max(idle, now - last.finished_at) if last and not runs else 0.0,
                cores=self._cores,
            )

    def _add_durations(
        self, runs: list[Run], views: list[RunView], reachable: Reachability, now: float
    ) -> list[RunView]:
        """Return the views with the seconds of the runs' and their ranks' states.

        A deadline passes by the system clock, which tasks read too. If that was set back, it passes
        by the time since the start. The end of a rank takes only the time in which the master is
        reachable, and can store what agents send.
        """
        present = "present"
        keys: list[tuple[Hashable, Hashable, Hashable]] = [
            (
                ("started", run.id if run.started_at else None),
                # In each phase, a run waits for something else.
                (run.id, run.attempt, bool(view.ranks), all(rank.over for rank in view.ranks)),
                (run.id, run.attempt, "written", sum(rank.held for rank in view.ranks)),
            )
            for run, view in zip(runs, views, strict=True)
        ]
        times = self._by_clock.look(self._monotonic(), present, *chain(*keys))
        progress = {
            (view.id, view.attempt, rank.rank): (rank.exited, rank.held // _STEP_BYTES)
            for view in views
            for rank in view.ranks
            if not rank.over and (rank.stopping or rank.exited)
        }
        if progress and not has_room(self._spool_bytes):
            progress = {}
        endings = self._by_hearing.look(reachable.seconds, *progress, *progress.items())
        timed = []
        for run, view, (started, phase, written) in zip(runs, views, keys, strict=True):
            overdue = -math.inf
            due_at = deadline_at(run)
            if due_at is not None and run.deadline_seconds is not None:
                by_system_clock = min(now - due_at, times[present])
                overdue = max(by_system_clock, times[started] - run.deadline_seconds)
            ranks = tuple(
                replace(rank, ending=endings[key], stuck=endings[key, progress[key]])
                if (key := (run.id, run.attempt, rank.rank)) in progress
                else rank
                for rank in view.ranks
            )
            waited, quiet = times[phase], times[written]
            timed.append(replace(view, overdue=overdue, waited=waited, quiet=quiet, ranks=ranks))
        return timed


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


def _view_workers(
    pods: list[PodStatus], workers: dict[str, _WorkerRow], runs: list[Run], reachable: Reachability
) -> Iterator[WorkerView]:
    """Yield the usable workers whose agents have reported from their present pod."""
    # After the loss of a database, agents may still report a run of the same id.
    next_attempts = {(run.id, run.attempt + 1) for run in runs}
    for pod in pods:
        worker = workers.get(pod.name)
        if worker is None or pod.phase != RUNNING or not pod.usable:
            continue
        if is_same_pod(pod.uid, worker.pod_uid):
            busy = worker.state == "running" or (worker.run_id, worker.attempt) in next_attempts
            # An agent that reported before a pause may have exited during it.
            is_recent = worker.heard >= reachable.since
            silent = reachable.seconds - worker.heard if is_recent else math.inf
            yield WorkerView(pod.name, pod.number, busy, silent)


def _view_run(
    run: Run, workers: dict[str, _WorkerRow], pods: list[PodStatus], reachable: Reachability
) -> RunView:
    pod_of = {pod.name: pod for pod in pods}
    owner = run_owner(run.id)
    selected = Rank.select(Rank.assigned_at, *_RANK.values()).order_by(Rank.rank)
    selected = selected.where(Rank.run == run.id, Rank.attempt == run.attempt)
    # Read before the streams: those of a rank that has exited are complete then. As plain rows,
    # because peewee's models take ten times as long for a thousand ranks.
    rows = database.execute(selected).fetchall()
    streams = run_sql(
        "SELECT rank, SUM(size), SUM(CASE WHEN size = final_size THEN 0 ELSE 1 END) FROM stream"
        " WHERE owner = ? AND attempt = ? GROUP BY rank",
        owner,
        run.attempt,
    )
    held_of = {rank: (int(size), int(incomplete)) for rank, size, incomplete in streams.fetchall()}
    # Samples that users post are left out: they may post for ever.
    unindexed = run_sql(
        "SELECT 1 FROM stream WHERE owner = ? AND name = ? AND indexed <> size LIMIT 1",
        owner,
        METRICS,
    )
    views, attempt = [], (run.id, run.attempt)
    for assigned_at, *columns in rows:
        stored = dict(zip(_RANK, columns, strict=True))
        uid, is_reported = stored["pod_uid"], bool(stored["reported"])
        worker, pod = workers.get(stored["worker"]), pod_of.get(stored["worker"])
        held, incomplete = held_of.get(stored["rank"], (0, 0))
        is_current = worker is not None and (worker.run_id, worker.attempt) == attempt
        trouble = ""
        # Clusters report times in whole seconds. Earlier trouble is not this rank's.
        if pod and is_same_pod(uid, pod.uid) and pod.troubled_at > assigned_at - 1:
            trouble = pod.trouble
        view = RankView(
            **stored,
            held=held,
            streams_complete=not incomplete,
            seen_at=max(assigned_at, worker.seen_at if worker else 0.0),
            silent=reachable.seconds - (worker.heard if worker else 0),
            forgotten=is_reported and not is_current,
            replaced=worker is not None and not is_same_pod(uid, worker.pod_uid),
            trouble=trouble,
        )
        views.append(view)
    ends = run.stop_requested or any(view.exit_code for view in views)
    asked = diagnoses.asked_of(run.id) if ends else []
    current = [diagnosis for diagnosis in asked if diagnosis.attempt == run.attempt]
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
        ranks=tuple(views),
        recorded=unindexed.fetchone() is None,
        is_external=bool(run.launcher),
        asked=time.time() - current[-1].asked_at if current else math.inf,
        answered=bool(current) and diagnoses.is_done(current[-1]),
    )
