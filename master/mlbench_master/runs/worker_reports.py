"""Workers: the master's side of the agent protocol, from an agent's report to its next task."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from mlbench.contract.fields import NO_NUL, Field
from mlbench.contract.names import (
    ACTIVE_STATES,
    STREAMS,
    ProgressName,
    ResourceName,
    StreamName,
    external_pod,
)
from mlbench.contract.records import AgentState
from mlbench_master import timestamps
from mlbench_master.database.connection import STATE, exclusive, run_sql, store
from mlbench_master.database.group_commit import PATIENT_SECONDS, GroupCommit
from mlbench_master.database.models import Rank, Run, run_owner
from mlbench_master.notify import notify
from mlbench_master.openapi.parameters import Number
from mlbench_master.pools.pool import is_same_pod
from mlbench_master.recording import late, streams
from mlbench_master.runs import diagnoses, run_clock, run_faults, run_profiles
from mlbench_master.runs.lifecycle import deadline_at, has_active

_MAX_POLLS_PER_SECOND = 150
"""Maximum rate of polls of all workers together."""
# The pause of an agent grows with the time that its request waited for a thread. Otherwise the
# agents of an overloaded master would time out and repeat their requests, which adds to the load.
_BACKOFF_FACTOR = 2.0

# Raw SQL: a thousand agents poll, and the ORM takes ten times as long as the query.
_LOOK = """
    SELECT (SELECT uid FROM pod WHERE name = ?), (SELECT seconds FROM hearing WHERE id = 1)
"""
_NOTE = """
    INSERT INTO worker (name, state, run_id, attempt, ip, pod_uid, fork_server, resources, seen_at,
        heard)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET state = excluded.state, run_id = excluded.run_id,
        attempt = excluded.attempt, ip = excluded.ip, pod_uid = excluded.pod_uid,
        fork_server = excluded.fork_server, resources = excluded.resources,
        seen_at = excluded.seen_at, heard = excluded.heard
"""
_CURRENT = """
    SELECT MAX(mine.id) FROM "rank" AS mine JOIN run ON run.id = mine.run_id
    WHERE run.state IN (?, ?) AND mine.attempt = run.attempt AND mine.worker = ?
"""
_NOTE_RANK = """
    UPDATE "rank" SET reported = TRUE, exit_code = ?, exited_at = ?, reported_at = ? WHERE id = ?
"""
_NOTE_STEADY = """
    UPDATE worker SET seen_at = ?, resources = ?,
        heard = COALESCE((SELECT seconds FROM hearing WHERE id = 1), 0)
    WHERE name = ? AND run_id = ? AND attempt = ? AND ip = ? AND pod_uid = ? AND fork_server = ?
        AND state = ?
        AND EXISTS (SELECT 1 FROM pod WHERE pod.name = worker.name AND pod.uid IN ('', ?))
        AND EXISTS (
            SELECT 1 FROM "rank" AS mine JOIN run ON run.id = mine.run_id
            WHERE mine.run_id = worker.run_id AND mine.attempt = worker.attempt AND mine.rank = ?
                AND mine.worker = worker.name AND COALESCE(mine.pod_uid, '') IN ('', ?)
                AND mine.reported AND mine.lost = '' AND (? = '' OR mine.failure <> '')
                AND run.state IN (?, ?) AND run.attempt = mine.attempt
                AND {holds}
        )
"""
# These two update the worker of a rank, running or exited, only if the report has nothing new.
_NOTE_RUNNING = _NOTE_STEADY.format(holds="NOT mine.stop AND mine.exit_code IS NULL")
_NOTE_EXITED = _NOTE_STEADY.format(
    holds="""mine.exit_code IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM stream
        WHERE owner = ? AND stream.attempt = mine.attempt AND stream.rank = mine.rank
            AND final_size > size AND final_size > CASE name
                WHEN 'stdout' THEN ? WHEN 'stderr' THEN ? WHEN 'metrics' THEN ? ELSE ? END
    )"""
)

Do = Literal["wait", "start", "stop"]
_Used = Annotated[float, Field(ge=0)]
_Size = Annotated[int, Field(ge=0, le=2**63 - 1)]

# Required fields of a report, by state.
_REQUIRED = {
    "idle": (),
    "running": ("run_id", "attempt", "rank"),
    "exited": ("run_id", "attempt", "rank", "exit_code", "exited_at"),
}


@dataclass(frozen=True, kw_only=True)
class Report:
    """The body of ``POST /api/workers/{pod}/poll``: the state of an agent and its rank."""

    json_schema: ClassVar[Mapping[str, Any]] = {
        "oneOf": [
            {
                "properties": {
                    "state": {"const": state},
                    **{name: {"not": {"type": "null"}} for name in required},
                },
                "required": [*required],
            }
            for state, required in _REQUIRED.items()
        ]
    }

    state: AgentState
    """State of the agent."""
    ip: Annotated[str, Field(max_length=64, pattern=NO_NUL)]
    """Address of the pod."""
    pod_uid: Annotated[str, Field(max_length=64, pattern=NO_NUL)] = ""
    """Kubernetes uid of the agent's pod, because names are reused; empty on other pools."""
    fork_server: bool = False
    """Whether a process with PyTorch imported is ready to be forked."""
    run_id: Number | None = None
    """Id of the run; null for an idle agent."""
    attempt: Number | None = None
    """Attempt of the run; null for an idle agent."""
    rank: Number | None = None
    """Rank in the run; null for an idle agent."""
    exit_code: Annotated[int | None, Field(ge=-255, le=255)] = None
    """Exit code of the rank, negative for a signal; null before its end."""
    exited_at: Annotated[float | None, Field(ge=0, le=timestamps.LATEST_US // 10**6)] = None
    """Time of the exit in Unix seconds, by the agent's clock; null before the exit."""
    sizes: dict[StreamName, _Size] = field(default_factory=dict)
    """Size of each stream of the rank, in bytes."""
    resources: dict[Literal[ResourceName, ProgressName], _Used] = field(default_factory=dict)
    """Resource usage and progress of the rank that nothing else exports, by name of the series."""
    failure: Annotated[str, Field(max_length=500, pattern=NO_NUL)] = ""
    """Why the rank failed, whatever its exit code; for external ranks with exit code 0, the
    missing data."""

    @property
    def used(self) -> str | None:
        """The resources as JSON; None if the report has no resources."""
        return json.dumps(self.resources) if self.resources else None

    def __post_init__(self) -> None:
        if missing := [name for name in _REQUIRED[self.state] if getattr(self, name) is None]:
            raise ValueError(f"{', '.join(missing)}: required if state is {self.state}")


@dataclass(frozen=True)
class Reply:
    """The response to a poll: the agent's task, and the time until its next poll."""

    do: Do
    """Task of the agent."""
    next_poll_seconds: float
    """Seconds until the next poll."""
    time: float
    """Time of the master in Unix seconds, with which the agent compares its clock."""
    busy: bool = False
    """Whether a run is active. Idle agents then do no work that could disturb the run."""
    assignment: dict[str, Any] | None = None
    """Assignment of the rank to start; null for none."""
    diagnosis: int | None = None
    """Id of the diagnosis that requests evidence of the rank; null for none."""
    native_rank: int | None = None
    """Rank whose C frames the diagnosis requests; null for none."""
    profile: run_profiles.PendingProfile | None = None
    """Requested profile of the rank; null for none."""
    faults: list[run_faults.DueFault] = field(default_factory=list)
    """Faults of the rank that are due soon."""


@dataclass(frozen=True)
class _Outcome:
    """The outcome of storing a report."""

    do: Do
    assignment: dict[str, Any] | None = None
    is_known: bool = True
    """Whether the report is of a pod that exists."""
    is_news: bool = False
    """Whether the report changed a rank, so that the controller must act."""
    is_steady: bool = False
    """Whether the report is of a rank of an active run, without anything new."""


def poll(pod: str, report: Report, waited_seconds: float = 0.0) -> Reply:
    """Store an agent's report, and return its next task.

    Args:
        pod: name of the agent's pod.
        report: the report.
        waited_seconds: time for which the request waited for a thread.
    """
    outcome = _group.write((pod, report))
    if not outcome.is_known:
        return Reply(do=outcome.do, next_poll_seconds=1.0, time=time.time())
    [pods] = run_sql("SELECT COUNT(*) FROM pod").fetchone()
    rank = report.run_id, report.attempt, report.rank
    diagnosis, native_rank = diagnoses.wanted_of(*rank)
    due, is_to_begin = run_faults.due_for(report.run_id, report.rank)
    # The controller wakes agents that have nothing to report, so these can poll rarely.
    rests = outcome.do == "wait" and report.state != "exited" and not is_to_begin
    return Reply(
        do=outcome.do,
        next_poll_seconds=max(
            3.0 if rests else 0.25, pods / _MAX_POLLS_PER_SECOND, _BACKOFF_FACTOR * waited_seconds
        ),
        time=time.time(),
        busy=outcome.is_steady or has_active(),
        assignment=outcome.assignment,
        diagnosis=diagnosis,
        native_rank=native_rank,
        profile=run_profiles.wanted_of(*rank),
        faults=due,
    )


def _store_all(reports: Sequence[tuple[str, Report]]) -> Sequence[_Outcome]:
    with exclusive(STATE):
        outcomes = [
            _Outcome("wait", is_steady=True) if is_steady(pod, report) else _store(pod, report)
            for pod, report in reports
        ]
    if any(outcome.is_news for outcome in outcomes):
        notify()
    return outcomes


_group = GroupCommit(_store_all, PATIENT_SECONDS)


def is_steady(pod: str, report: Report) -> bool:
    """Store a report that has nothing new, and return whether it was such a report.

    Nearly all reports are, and this takes a tenth of the time of the others.
    """
    if report.state == "idle":
        return False
    now, uid, run_id = time.time(), report.pod_uid, report.run_id
    worker = (pod, run_id, report.attempt, report.ip, uid, report.fork_server, report.state)
    rank = (uid, report.rank, uid, report.failure, *ACTIVE_STATES)
    if report.state == "running":
        updated = run_sql(_NOTE_RUNNING, now, report.used, *worker, *rank)
    else:
        sizes = [report.sizes.get(name, 0) for name in STREAMS]
        shipped = (run_owner(run_id or 0), *sizes)
        updated = run_sql(_NOTE_EXITED, now, report.used, *worker, *rank, *shipped)
    return bool(updated.rowcount)


def _store(pod: str, report: Report) -> _Outcome:
    uid, heard = run_sql(_LOOK, pod).fetchone()
    if uid is None:
        # The pool may not have seen the pod yet. The pod of an external rank ends with its run.
        has_ended = pod == external_pod(report.run_id, report.rank)
        return _Outcome("stop" if has_ended else "wait", is_known=False)
    if not is_same_pod(uid, report.pod_uid):
        return _Outcome("wait" if report.state == "idle" else "stop", is_known=False)
    fields = (report.state, report.run_id, report.attempt, report.ip, report.pod_uid)
    run_sql(_NOTE, pod, *fields, report.fork_server, report.used, time.time(), heard or 0)
    is_news = report.run_id is not None and _store_rank(pod, report)
    # The rank that the worker got last, in the current attempt of an active run.
    [rank_id] = run_sql(_CURRENT, *ACTIVE_STATES, pod).fetchone()
    current = Rank.rows("id = ?", rank_id)[0] if rank_id is not None else None
    if current is not None and not is_same_pod(current.pod_uid, report.pod_uid):
        # The rank belongs to an earlier pod of this name, and is lost with that pod.
        current = None
    never_begun = current and current.stop and not (current.reported or current.lost)
    if current and never_begun and report.state == "idle":
        lost = "it was stopped before it began"
        store(current, lost=lost, exited_at=run_clock.now(current.run))
    do = decide(report, current)
    assignment = current.assignment if current and do == "start" else None
    return _Outcome(do, assignment, is_news=is_news)


def next_ship_seconds(num_workers: int, waited_seconds: float = 0.0) -> float:
    """Return the seconds until a rank should ship again; at least 1.

    All ranks of a run together ship at most 500 times per second.

    Args:
        num_workers: ranks of the run.
        waited_seconds: time for which the request waited for a thread.
    """
    return max(1.0, num_workers / 500, _BACKOFF_FACTOR * waited_seconds)


def decide(report: Report, current: Rank | None) -> Do:
    """Return the next task of an agent, from its report and the rank assigned to its worker.

    An agent that gets "stop" after its process has ended becomes idle.
    """
    if current is None:
        return "wait" if report.state == "idle" else "stop"
    must_end = current.stop or bool(current.lost)
    if report.state == "idle":
        return "wait" if must_end or current.reported else "start"
    about_current = (report.run_id, report.attempt) == (current.run_id, current.attempt)
    if not about_current or (report.state == "running" and must_end):
        return "stop"
    return "wait"


def _store_rank(pod: str, report: Report) -> bool:
    """Store that a rank has started, failed or exited, at the first report of it.

    Return whether the report changed the rank.
    """
    key = (pod, report.run_id, report.attempt, report.rank)
    ranks = Rank.rows("worker = ? AND run_id = ? AND attempt = ? AND rank = ?", *key)
    if not ranks:
        return False
    rank = ranks[0]
    if rank.lost:
        if report.state == "exited":
            late.end(rank.run_id, rank.attempt, rank.rank, report.sizes)
        return False
    if failed := bool(report.failure and not rank.failure):
        store(rank, failure=report.failure)
    if rank.exit_code is not None:
        if report.state == "exited":
            streams.shorten(rank.run_id, rank.attempt, rank.rank, report.sizes)
        return failed
    if rank.reported and report.state == "running":
        return failed
    [run] = Run.rows("id = ?", rank.run_id)
    now = run_clock.now(run)
    if report.exited_at is not None and report.state == "exited":
        rank.exit_code = report.exit_code
        # By the worker's clock, because exits of one attempt are compared; never in the future.
        exited_at = report.exited_at - rank.clock_ahead
        rank.exited_at = min(max(exited_at, rank.assigned_at), now)
        streams.close(rank.run_id, rank.attempt, rank.rank, report.sizes)
    rank.reported_at = rank.reported_at or rank.exited_at or now
    run_sql(_NOTE_RANK, rank.exit_code, rank.exited_at, rank.reported_at, rank.get_id())
    run_faults.begin(run, deadline_at(run))
    return True
