"""Workers: what an agent reports, and what it is told to do. The agent protocol's master side."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    field_validator,
    model_validator,
)

from mlbench.contract.names import (
    ACTIVE_STATES,
    STREAMS,
    ProgressName,
    ResourceName,
    StreamName,
    recorded_pod,
)
from mlbench.contract.records import AgentState
from mlbench_master import times
from mlbench_master.database.connection import STATE, exclusive, run_sql, store
from mlbench_master.database.group_commit import PATIENT_SECONDS, GroupCommit
from mlbench_master.database.models import Rank, Run, run_owner
from mlbench_master.http.fields import NO_NUL, refuse_truth_value
from mlbench_master.notify import notify
from mlbench_master.pools.base import is_same_pod
from mlbench_master.recording import late, streams
from mlbench_master.runs import autopsies, clock, faults, profiles
from mlbench_master.runs.life import deadline_at, has_active

# However many workers there are, together they poll this often at most.
_POLLS_PER_SECOND = 150
_FASTEST_POLL_SECONDS = 0.25
# Of an agent that has nothing to tell: the controller wakes it when there is something to do.
_RESTING_POLL_SECONDS = 3.0
# However many ranks a run has, together they ship about so often at most; few of them gather what
# comes for a while.
_SHIPMENTS_PER_SECOND = 500
_FASTEST_SHIP_SECONDS = 1.0
_TURNED_AWAY_SECONDS = 1.0

# An agent is asked to wait so many times as long as its request had to wait: agents that ask for
# more than the master can do would give up on answers, ask again, and have it do even less.
_EASING = 2.0

# Spelled in SQL, as a thousand agents poll: composing these takes ten times as long as running.
_LOOK = """
    SELECT (SELECT uid FROM pod WHERE name = ?), (SELECT seconds FROM hearing WHERE id = 1)
"""
_COUNT_PODS = "SELECT COUNT(*) FROM pod"
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
# Whether there is nothing new in a report of a rank that runs, or that has exited and ships.
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
_Number = Annotated[int, Field(ge=0, le=2**31 - 1), BeforeValidator(refuse_truth_value)]
_Used = Annotated[float, Field(ge=0), BeforeValidator(refuse_truth_value)]
_Size = Annotated[int, Field(ge=0, le=2**63 - 1), BeforeValidator(refuse_truth_value)]

# What a report says besides, by its state.
_NEEDED = {
    "idle": (),
    "running": ("run_id", "attempt", "rank"),
    "exited": ("run_id", "attempt", "rank", "exit_code", "exited_at"),
}


def _branch(state: str, needed: Sequence[str]) -> JsonValue:
    """Return the schema of what holds for a report with this state."""
    given: dict[str, JsonValue] = {name: {"not": {"type": "null"}} for name in needed}
    return {"properties": {"state": {"const": state}, **given}, "required": [*needed]}


class Report(BaseModel):
    """The body of ``POST /api/workers/{pod}/poll``: what is."""

    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={"oneOf": [_branch(state, needed) for state, needed in _NEEDED.items()]},
    )

    state: AgentState
    ip: str = Field(max_length=64, pattern=NO_NUL)
    pod_uid: str = Field(default="", max_length=64, pattern=NO_NUL)
    """Which pod it is in, where a cluster uses names again."""
    fork_server: StrictBool = False
    """Whether a process that has imported PyTorch is ready to be forked."""
    run_id: _Number | None = None
    attempt: _Number | None = None
    rank: _Number | None = None
    exit_code: int | None = Field(default=None, ge=-255, le=255)
    exited_at: float | None = Field(default=None, ge=0, le=times.LATEST_US // 10**6)
    sizes: dict[StreamName, _Size] = Field(default_factory=dict)
    resources: dict[Literal[ResourceName, ProgressName], _Used] = Field(default_factory=dict)
    """What a rank uses and does that no exporter or scrape watches, by name of the series."""
    failure: str = Field(default="", max_length=500, pattern=NO_NUL)
    """Why the rank has failed, however its process ends; of a recorded rank that exits with 0, what
    is missing."""

    _no_truth_value = field_validator("exit_code", "exited_at", mode="before")(refuse_truth_value)

    @property
    def used(self) -> str | None:
        """The resources as JSON; None where there are none."""
        return json.dumps(self.resources) if self.resources else None

    @model_validator(mode="after")
    def _says_enough(self) -> Self:
        if missing := [name for name in _NEEDED[self.state] if getattr(self, name) is None]:
            raise ValueError(f"{', '.join(missing)}: required if state is {self.state}")
        return self


class DueFault(BaseModel):
    """A failure that an agent is to inject into its rank."""

    id: int
    """Its number among those of the run."""
    fault: str
    """Such as ``kill`` or ``stop:5s``."""
    at: float
    """When, in Unix seconds by the master's clock."""


class Reply(BaseModel):
    """The answer: what should be, and when to ask again."""

    do: Do
    next_poll_seconds: float
    time: float
    """The master's clock in Unix seconds, for the agent to compare its own with."""
    busy: bool = False
    """Whether a run is active, of which an idle agent keeps its hands."""
    assignment: dict[str, Any] | None = None
    autopsy: int | None = None
    """Which autopsy wants evidence of the rank; null if none does."""
    native_rank: int | None = None
    """Of which rank that wants the frames of C too; null if of none."""
    profile: profiles.Wanted | None = None
    """Which profile of the rank is wanted; null if none is."""
    faults: list[DueFault] = []
    """The failures that are soon due for the rank."""


@dataclass(frozen=True)
class _Noted:
    """What became of a report."""

    do: Do
    assignment: dict[str, Any] | None = None
    counts: bool = True
    """Whether it is one of the pod that is there."""
    is_news: bool = False
    """Whether the controller has something to do by it."""
    is_steady: bool = False
    """Whether it is that of a rank of an active run, of which there is nothing new."""


def poll(pod: str, report: Report, waited_seconds: float = 0.0) -> Reply:
    """Store an agent's report, and answer with its next task.

    Its poll had to wait so many seconds for a thread.
    """
    noted = _group.write((pod, report))
    if not noted.counts:
        return Reply(do=noted.do, next_poll_seconds=_TURNED_AWAY_SECONDS, time=time.time())
    return _reply(noted, report, waited_seconds)


def _note_all(reports: Sequence[tuple[str, Report]]) -> Sequence[_Noted]:
    with exclusive(STATE):
        noted = [
            _Noted("wait", is_steady=True) if is_steady(pod, report) else _note(pod, report)
            for pod, report in reports
        ]
    if any(one.is_news for one in noted):
        notify()
    return noted


_group = GroupCommit(_note_all, PATIENT_SECONDS)


def is_steady(pod: str, report: Report) -> bool:
    """Note the report of a rank of which there is nothing new, and return whether it is one.

    All but a few reports are, and this takes a tenth of the time.
    """
    if report.state == "idle":
        return False
    now, uid, run_id = time.time(), report.pod_uid, report.run_id
    its = (pod, run_id, report.attempt, report.ip, uid, report.fork_server, report.state)
    rank = (uid, report.rank, uid, report.failure, *ACTIVE_STATES)
    if report.state == "running":
        noted = run_sql(_NOTE_RUNNING, now, report.used, *its, *rank)
    else:
        sizes = [report.sizes.get(name, 0) for name in STREAMS]
        noted = run_sql(_NOTE_EXITED, now, report.used, *its, *rank, run_owner(run_id or 0), *sizes)
    return bool(noted.rowcount)


def _note(pod: str, report: Report) -> _Noted:
    uid, heard = run_sql(_LOOK, pod).fetchone()
    if uid is None:
        # The pool may not have seen it yet; what stands for a recorded rank ends with its run.
        is_over = pod == recorded_pod(report.run_id, report.rank)
        return _Noted("stop" if is_over else "wait", counts=False)
    if not is_same_pod(uid, report.pod_uid):
        return _Noted("wait" if report.state == "idle" else "stop", counts=False)
    about = (report.state, report.run_id, report.attempt, report.ip, report.pod_uid)
    run_sql(_NOTE, pod, *about, report.fork_server, report.used, time.time(), heard or 0)
    is_news = report.run_id is not None and _note_rank(pod, report)
    current = _current_rank(pod)
    if current is not None and not is_same_pod(current.pod_uid, report.pod_uid):
        # It was given to the pod before this one, and is lost with it.
        current = None
    never_begun = current and current.stop and not (current.reported or current.lost)
    if current and never_begun and report.state == "idle":
        lost = "it was stopped before it began"
        store(current, lost=lost, exited_at=clock.now(current.run))
    do = decide(report, current)
    return _Noted(do, current.assignment if current and do == "start" else None, is_news=is_news)


def _reply(noted: _Noted, report: Report, waited_seconds: float) -> Reply:
    [pods] = run_sql(_COUNT_PODS).fetchone()
    autopsy, native_rank = autopsies.wanted_of(report.run_id, report.attempt, report.rank)
    due, is_to_begin = faults.due_for(report.run_id, report.rank)
    rests = noted.do == "wait" and report.state != "exited" and not is_to_begin
    return Reply(
        do=noted.do,
        next_poll_seconds=max(
            _RESTING_POLL_SECONDS if rests else _FASTEST_POLL_SECONDS,
            pods / _POLLS_PER_SECOND,
            _EASING * waited_seconds,
        ),
        time=time.time(),
        busy=noted.is_steady or has_active(),
        assignment=noted.assignment,
        autopsy=autopsy,
        native_rank=native_rank,
        profile=profiles.wanted_of(report.run_id, report.attempt, report.rank),
        faults=[DueFault(**fault) for fault in due],
    )


def next_ship_seconds(num_workers: int, waited_seconds: float = 0.0) -> float:
    """Return after how long a rank should ship again.

    Its request had to wait so many seconds for a thread.
    """
    return max(_FASTEST_SHIP_SECONDS, num_workers / _SHIPMENTS_PER_SECOND, _EASING * waited_seconds)


def decide(report: Report, current: Rank | None) -> Do:
    """Decide what an agent should do, from its report and the rank that it should be running.

    "stop" to an agent whose process has ended means: forget it, and be idle.
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


def _note_rank(pod: str, report: Report) -> bool:
    """Write down that a rank has begun, failed or ended, the first time that its agent says so.

    Return whether there was something to write down.
    """
    its = (pod, report.run_id, report.attempt, report.rank)
    ranks = Rank.rows("worker = ? AND run_id = ? AND attempt = ? AND rank = ?", *its)
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
    now = clock.now(run)
    if report.exited_at is not None and report.state == "exited":
        rank.exit_code = report.exit_code
        # As the worker says, as all exits of one attempt are compared; but never in the future.
        at = report.exited_at - rank.clock_ahead
        rank.exited_at = min(max(at, rank.assigned_at), now)
        streams.close(rank.run_id, rank.attempt, rank.rank, report.sizes)
    rank.reported_at = rank.reported_at or rank.exited_at or now
    run_sql(_NOTE_RANK, rank.exit_code, rank.exited_at, rank.reported_at, rank.get_id())
    faults.begin(run, deadline_at(run))
    return True


def _current_rank(pod: str) -> Rank | None:
    """Return the rank that a worker was given last, of the attempts that are going on."""
    [last] = run_sql(_CURRENT, *ACTIVE_STATES, pod).fetchone()
    return Rank.rows("id = ?", last)[0] if last is not None else None
