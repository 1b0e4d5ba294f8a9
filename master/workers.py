"""Workers: what an agent reports, and what it is told to do. The agent protocol's master side."""

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from master.models import Rank, Run, Worker, database
from master.recording import streams
from mlbench.names import ACTIVE_STATES, StreamName

# However many workers there are, together they poll this often at most.
_POLLS_PER_SECOND = 200
_FASTEST_POLL_SECONDS = 0.25

Do = Literal["wait", "start", "stop"]


class Report(BaseModel):
    """The body of ``POST /api/workers/{pod}/poll``: what is."""

    model_config = ConfigDict(extra="forbid")

    state: Literal["idle", "running", "exited"]
    ip: str = Field(max_length=64)
    run_id: int | None = None
    attempt: int | None = None
    rank: int | None = None
    exit_code: int | None = None
    exited_at: float | None = None
    sizes: dict[StreamName, int] = Field(default_factory=dict)


class Reply(BaseModel):
    """The answer: what should be, and when to ask again."""

    do: Do
    next_poll_seconds: float
    assignment: dict[str, Any] | None = None


def poll(pod: str, report: Report) -> Reply:
    """Note what an agent reports, and tell it what to do."""
    with database.atomic("IMMEDIATE"):
        Worker.replace(
            name=pod,
            state=report.state,
            run_id=report.run_id,
            attempt=report.attempt,
            ip=report.ip,
            seen_at=time.time(),
        ).execute()
        _note_rank(pod, report)
        current = _current_rank(pod)
        do = decide(report, current)
        count = Worker.select().count()
    return Reply(
        do=do,
        next_poll_seconds=max(_FASTEST_POLL_SECONDS, count / _POLLS_PER_SECOND),
        assignment=current.assignment if current and do == "start" else None,
    )


def decide(report: Report, current: Rank | None) -> Do:
    """Return what an agent should do, given its report and the rank that it should be running.

    "stop" to an agent whose process has ended means: forget it, and be idle.
    """
    if current is None:
        return "wait" if report.state == "idle" else "stop"
    if report.state == "idle":
        return "wait" if current.stop or current.reported else "start"
    about_current = (report.run_id, report.attempt) == (current.run_id, current.attempt)
    if not about_current or (report.state == "running" and current.stop):
        return "stop"
    return "wait"


def _note_rank(pod: str, report: Report) -> None:
    """Write down that a rank has begun or ended, the first time that its agent says so."""
    rank = Rank.get_or_none(
        Rank.worker == pod,
        Rank.run == report.run_id,
        Rank.attempt == report.attempt,
        Rank.rank == report.rank,
    )
    if rank is None or rank.exit_code is not None:
        return
    rank.reported = True
    if report.state == "exited":
        rank.exit_code = report.exit_code
        rank.exited_at = report.exited_at
        streams.close(rank.run_id, rank.attempt, rank.rank, report.sizes)
    rank.save()


def _current_rank(pod: str) -> Rank | None:
    """Return the rank that a worker has in the attempt that is going on."""
    current: Rank | None = (
        Rank.select()
        .join(Run)
        .where(Rank.worker == pod, Run.state.in_(ACTIVE_STATES), Rank.attempt == Run.attempt)
        .first()
    )
    return current
