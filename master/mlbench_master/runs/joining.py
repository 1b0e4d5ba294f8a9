"""External jobs: their processes join a run, which the first process creates."""

import time
import uuid
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from mlbench.contract.fields import NO_NUL, Field
from mlbench.contract.names import ACTIVE_STATES, external_pod
from mlbench.contract.people import MAX_USER_LENGTH, clean_user
from mlbench.contract.pod_token import PodIdentity, derive
from mlbench.contract.records import Joined
from mlbench_master.database.connection import STATE, exclusive, store
from mlbench_master.database.models import Pod, Rank, Run, Stream, Worker, run_owner
from mlbench_master.errors import ConflictError
from mlbench_master.notify import notify
from mlbench_master.openapi.parameters import Number
from mlbench_master.pools.pool import RUNNING
from mlbench_master.recording import streams
from mlbench_master.runs import join_tokens, run_clock
from mlbench_master.runs.admission import check_workers
from mlbench_master.runs.reachability import read_reachability
from mlbench_master.runs.requests import Command, DisplayName, Folder, Word, kubernetes_name
from mlbench_master.settings import InstallationLimits


@dataclass(frozen=True, kw_only=True)
class JoinRequest:
    """The body of ``POST /api/join/``."""

    key: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
    """Id of the job: equal for all of its processes, different for other active jobs."""
    rank: Number
    """Rank of the process."""
    num_workers: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """Number of ranks of the job."""
    attempt: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Attempt of the job: 1, plus the number of restarts by its launcher."""
    max_restarts: Number = 0
    """Maximum number of restarts by the launcher."""
    launcher: Annotated[Word, Field(max_length=20)]
    """Launcher of the processes, e.g. ``slurm``."""
    user: Annotated[str, Field(max_length=MAX_USER_LENGTH, pattern=NO_NUL)] = ""
    """User of the process, unless the token has a user. Empty if unknown."""
    name: DisplayName | None = None
    """Display name of the run. Only the first process to join sets the name."""
    command: Command
    """Command line of the process, quoted for a shell."""
    working_dir: Folder | None = None
    """Working directory of the process."""
    host: Annotated[str, Field(max_length=255, pattern=NO_NUL)]
    """Host of the process."""
    began_ago: Annotated[float, Field(ge=0, le=366 * 86400)] = 0.0
    """Seconds since the start of the process, at most a year."""
    uid: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Random id of the recorder, which makes repeated requests idempotent."""

    def __post_init__(self) -> None:
        if self.rank >= self.num_workers:
            raise ValueError(f"rank: must be less than num_workers (got {self.rank})")


_JOINED = Run._meta.fields.keys() & {field.name for field in fields(JoinRequest)}


def join(
    order: JoinRequest,
    holder: str,
    limits: InstallationLimits,
    agent_secret: str,
    expires_at: float = 0.0,
    user: str = "",
) -> Joined:
    """Join a process to the run of its job. The first process creates the run.

    Args:
        order: the request.
        holder: holder of the joining token, "" for a user. Each holder has separate jobs.
        limits: the limits of the pool.
        agent_secret: the secret from which tokens of pods are derived.
        expires_at: expiry of the joining token in Unix seconds.
        user: the user of the token; "" for that of the request.

    Raises:
        BadFieldError: the job has more ranks than a run may have (400).
        TooManyError: the quota of the token is used up (429).
        ConflictError: another process has the rank, or the run is at a later attempt (409).
    """
    check_workers(order.num_workers, limits)
    with exclusive(STATE):
        if holder:
            join_tokens.note_use(holder, expires_at)
        run = _find_or_create(replace(order, user=user or clean_user(order.user)), holder, limits)
        if _find_rank(run, order.rank) is None:
            _add(run, order)
    notify()
    pod = PodIdentity(external_pod(run.id, order.rank), order.uid)
    return Joined(run.id, order.attempt, pod.name, derive(pod, agent_secret))


def _find_or_create(order: JoinRequest, holder: str, limits: InstallationLimits) -> Run:
    """Return the run of a job, at the attempt of the process."""
    job_key = f"{holder}/{order.key}"
    runs = Run.rows("job_key = ? ORDER BY id DESC LIMIT 1", job_key)
    if not runs:
        return _create(order, holder, limits)
    [run] = runs
    rank, joined = order.rank, _find_rank(run, order.rank)
    if joined is not None and joined.pod_uid == order.uid and order.attempt == run.attempt:
        return run
    if run.state not in ACTIVE_STATES:
        is_same = order.num_workers == run.num_workers and order.attempt <= run.attempt
        if joined is None and is_same:
            raise ConflictError(f"run {run.id} of this job has ended, so rank {rank} is too late")
        # Other jobs reuse keys, such as the default port of torchrun.
        return _create(order, holder, limits)
    if order.num_workers != run.num_workers:
        ranks = f"{run.num_workers} ranks (got {order.num_workers})"
        raise ConflictError(f"num_workers: run {run.id} of this job has {ranks}")
    if order.attempt < run.attempt:
        current = f"attempt {run.attempt} (got {order.attempt})"
        raise ConflictError(f"attempt: run {run.id} of this job is already at {current}")
    if order.attempt > run.attempt:
        # Missing data of the attempt before counts as lost.
        where = "owner = ? AND attempt = ? AND final_size > size"
        streams_of_run = Stream.rows(where, run_owner(run.id), run.attempt)
        incomplete = {stream.rank for stream in streams_of_run}
        for row in Rank.select().where(Rank.run == run.id, Rank.attempt == run.attempt):
            if not row.lost and (row.exit_code is None or row.rank in incomplete):
                reason = f"attempt {order.attempt} began before all of it had come"
                store(row, lost=reason, exited_at=row.exited_at or run_clock.now(run))
                streams.close(run.id, run.attempt, row.rank, {})
        store(run, attempt=order.attempt, waiting=None)
    elif joined is not None:
        host = Pod.get_by_id(joined.worker).node
        raise ConflictError(f"rank: rank {rank} of run {run.id} has already joined from {host}")
    return run


def _find_rank(run: Run, rank: int) -> Rank | None:
    row: Rank | None = Rank.get_or_none(run=run.id, attempt=run.attempt, rank=rank)
    return row


def _create(order: JoinRequest, holder: str, limits: InstallationLimits) -> Run:
    if holder:
        join_tokens.admit_run(holder, order.num_workers, limits)
    name, began_at = order.name or f"{order.launcher} job", time.time() - order.began_ago
    names = {"name": kubernetes_name(name), "display_name": name}
    created: Run = Run.create(
        **{column: getattr(order, column) for column in _JOINED} | names,
        job_id=str(uuid.uuid4()),
        job_key=f"{holder}/{order.key}",
        benchmark="",
        args={},
        state="STARTED",
        created_at=began_at,
        room_at=began_at,
        started_at=began_at,
        steady_clock=run_clock.begin(order.began_ago),
    )
    return created


def _add(run: Run, order: JoinRequest) -> None:
    """Give a process its rank, with the rows of a pod and of an agent that has just polled."""
    name, began_at = external_pod(run.id, order.rank), run_clock.now(run) - order.began_ago
    if run.started_at is not None and began_at < run.started_at:
        run_clock.begin_before(run, began_at)
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
        assignment={},
        assigned_at=began_at,
        reported_at=began_at,
        clock_ahead=run_clock.was_set_by(run),
    )
    Run.update(delivery=None).where(Run.id == run.id).execute()
