"""Recorded runs: processes that somebody else starts join one, and the first of them orders it."""

import shlex
import time
import uuid
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from mlbench.contract.assignment import Assignment
from mlbench.contract.names import ACTIVE_STATES, recorded_pod
from mlbench.contract.pod_token import PodIdentity, derive
from mlbench.contract.records import Joined
from mlbench_master.database.connection import STATE, exclusive, store
from mlbench_master.database.models import Pod, Rank, Run, Stream, Worker, run_owner
from mlbench_master.errors import ConflictError
from mlbench_master.http.fields import NO_NUL, refuse_truth_value
from mlbench_master.notify import notify
from mlbench_master.pools.base import RUNNING
from mlbench_master.recording import streams
from mlbench_master.runs import clock, join_tokens
from mlbench_master.runs.feasible import check_workers
from mlbench_master.runs.reachability import read_reachability
from mlbench_master.runs.requests import Command, DisplayName, Folder, Word, kubernetes_name
from mlbench_master.settings import Limits

_LARGEST = 2**31 - 1
# A recording may be shipped long after its end, but its date has to be plausible.
_LONGEST_AGO = 366 * 86400.0
# A later attempt than any launcher reaches would shut out all that are real.
_MAX_ATTEMPT = 10_000
_Index = Annotated[int, Field(ge=0, le=_LARGEST), BeforeValidator(refuse_truth_value)]
_Count = Annotated[int, Field(ge=1, le=_LARGEST), BeforeValidator(refuse_truth_value)]


class JoinRequest(BaseModel):
    """The body of ``POST /api/join/``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    key: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
    """What all processes of the job say, and no other job of theirs that goes on: its id."""
    rank: _Index
    num_workers: _Count
    """How many ranks join."""
    attempt: Annotated[_Count, Field(le=_MAX_ATTEMPT)] = 1
    """From 1 on, one more for each time that its launcher begins it anew."""
    max_restarts: _Index = 0
    """How often its launcher begins it anew."""
    launcher: Annotated[Word, Field(max_length=20)]
    """Who starts its processes, such as ``slurm``."""
    name: DisplayName | None = None
    """Of the run, as the first to join says."""
    command: Command
    """What the process runs, its words as a shell would find them."""
    working_dir: Folder | None = None
    host: Annotated[str, Field(max_length=255, pattern=NO_NUL)]
    """Where the process runs."""
    began_ago: Annotated[float, BeforeValidator(refuse_truth_value)] = Field(
        default=0.0, ge=0, le=_LONGEST_AGO, allow_inf_nan=False
    )
    """How many seconds ago the process began."""
    uid: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """The recorder's own: the same when it asks again, as it got no answer."""

    @model_validator(mode="after")
    def _is_among_them(self) -> Self:
        if self.rank >= self.num_workers:
            raise ValueError(f"rank: must be less than num_workers (got {self.rank})")
        return self


def join(
    order: JoinRequest, holder: str, limits: Limits, agent_secret: str, expires_at: float = 0.0
) -> Joined:
    """Have a process join the run of its job, and order that if it is the first.

    ``holder``: whose joining token it shows, and "" for a user; nobody finds another one's jobs.
    ``expires_at``: when that token expires, in Unix seconds.

    Raises:
        BadFieldError: the job has more ranks than a run may have (400).
        TooManyError: the quota of the token is used up (429).
        ConflictError: its rank is another process's, or its run is past that (409).
    """
    check_workers(order.num_workers, limits)
    with exclusive(STATE):
        if holder:
            join_tokens.note_use(holder, expires_at)
        run = _find_or_create(order, holder, limits)
        if _find_rank(run, order.rank) is None:
            _add(run, order)
    notify()
    pod = PodIdentity(recorded_pod(run.id, order.rank), order.uid)
    return Joined(run.id, order.attempt, pod.name, derive(pod, agent_secret))


def _find_or_create(order: JoinRequest, holder: str, limits: Limits) -> Run:
    """Return the run of a job, at the attempt that a process is of."""
    job_key = f"{holder}/{order.key}"
    runs = Run.rows("job_key = ? ORDER BY id DESC LIMIT 1", job_key)
    if not runs:
        return _create(order, holder, limits)
    [run] = runs
    rank, its = order.rank, _find_rank(run, order.rank)
    if its is not None and its.pod_uid == order.uid and order.attempt == run.attempt:
        return run
    if run.state not in ACTIVE_STATES:
        is_same = order.num_workers == run.num_workers and order.attempt <= run.attempt
        if its is None and is_same:
            raise ConflictError(f"run {run.id} of this job has ended, so rank {rank} is too late")
        # Keys come again, such as the default port of torchrun.
        return _create(order, holder, limits)
    if order.num_workers != run.num_workers:
        ranks = f"{run.num_workers} ranks (got {order.num_workers})"
        raise ConflictError(f"num_workers: run {run.id} of this job has {ranks}")
    if order.attempt < run.attempt:
        current = f"attempt {run.attempt} (got {order.attempt})"
        raise ConflictError(f"attempt: run {run.id} of this job is already at {current}")
    if order.attempt > run.attempt:
        _begin_attempt(run, order.attempt)
    elif its is not None:
        host = Pod.get_by_id(its.worker).node
        raise ConflictError(f"rank: rank {rank} of run {run.id} has already joined from {host}")
    return run


def _find_rank(run: Run, rank: int) -> Rank | None:
    found: Rank | None = Rank.get_or_none(run=run.id, attempt=run.attempt, rank=rank)
    return found


def _create(order: JoinRequest, holder: str, limits: Limits) -> Run:
    if holder:
        join_tokens.admit_run(holder, order.num_workers, limits)
    name, now = order.name or f"{order.launcher} job", time.time()
    created: Run = Run.create(
        job_id=str(uuid.uuid4()),
        job_key=f"{holder}/{order.key}",
        name=kubernetes_name(name),
        display_name=name,
        launcher=order.launcher,
        benchmark="",
        args={},
        command=order.command,
        working_dir=order.working_dir,
        num_workers=order.num_workers,
        max_restarts=order.max_restarts,
        state="STARTED",
        attempt=order.attempt,
        created_at=now - order.began_ago,
        room_at=now - order.began_ago,
        started_at=now - order.began_ago,
        steady_clock=clock.begin(order.began_ago),
    )
    return created


def _begin_attempt(run: Run, attempt: int) -> None:
    """Have a run go on to an attempt; what has not come of the one before is given up."""
    where = "owner = ? AND attempt = ? AND final_size > size"
    rests = Stream.rows(where, run_owner(run.id), run.attempt)
    unfinished = {stream.rank for stream in rests}
    for rank in Rank.select().where(Rank.run == run.id, Rank.attempt == run.attempt):
        if not rank.lost and (rank.exit_code is None or rank.rank in unfinished):
            why = f"attempt {attempt} began before all of it had come"
            store(rank, lost=why, exited_at=rank.exited_at or clock.now(run))
            streams.close(run.id, run.attempt, rank.rank, {})
    store(run, attempt=attempt, waiting=None)


def _add(run: Run, order: JoinRequest) -> None:
    """Give a process its rank, and what stands for its pod and agent, heard of just now."""
    name, began_at = recorded_pod(run.id, order.rank), clock.now(run) - order.began_ago
    if run.started_at is not None and began_at < run.started_at:
        clock.begin_before(run, began_at)
    assignment = Assignment(
        run_id=run.id,
        attempt=run.attempt,
        rank=order.rank,
        world_size=run.num_workers,
        master_addr="",
        master_port=0,
        command=tuple(shlex.split(order.command)),
        cpus=(),
        keeps_checkpoints=run.max_restarts > 0,
        working_dir=order.working_dir,
    )
    pod: dict[str, Any] = {"uid": order.uid, "phase": RUNNING, "ip": "", "node": order.host}
    pod |= {"labels": {}, "external": True}
    agent: dict[str, Any] = {"state": "idle", "run_id": None, "attempt": None, "ip": ""}
    agent |= {"pod_uid": order.uid, "seen_at": time.time(), "heard": read_reachability().seconds}
    for table, row in ((Pod, pod), (Worker, agent)):
        stored = table.insert(name=name, **row)
        stored.on_conflict(conflict_target=[table.name], update=row).execute()
    Rank.create(
        run=run.id,
        attempt=run.attempt,
        rank=order.rank,
        worker=name,
        pod_uid=order.uid,
        assignment=asdict(assignment),
        assigned_at=began_at,
        reported_at=began_at,
        clock_ahead=clock.was_set_by(run),
    )
    Run.update(delivery=None).where(Run.id == run.id).execute()
