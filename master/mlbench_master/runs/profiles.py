"""Asking a rank for a profile of some seconds, and what its agent brings.

A profile's file is one of the run's files: it is read, sealed, exported and deleted as these are.
"""

import hashlib
import time
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.profiles import (
    LONGEST_TEXT,
    MOST_BYTES,
    MOST_OPERATORS,
    MOST_SECONDS,
    RankProfile,
    Recorded,
)
from mlbench_master import exact_json, times
from mlbench_master.database.connection import STATE, exclusive, run_sql, store
from mlbench_master.database.models import Profile, Rank, Run
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError
from mlbench_master.notify import notify
from mlbench_master.runs import life

# Besides its seconds: a profile has to be written, and sent.
_PATIENCE_SECONDS = 240.0
# Of a rank's run that is profiled more often, the oldest are forgotten.
_MOST = 5
_MOST_LINE_BYTES = 64 << 10
MOST_BODY_BYTES = MOST_BYTES + _MOST_LINE_BYTES
_LARGEST = 2**53
# Spelled in SQL, as a thousand agents poll.
_WANTED = """
    SELECT id, seconds FROM profile
    WHERE run_id = ? AND attempt = ? AND rank = ? AND recorded IS NULL AND asked_at + seconds > ?
"""


class ProfileRequest(BaseModel):
    """What is to be profiled."""

    model_config = ConfigDict(extra="forbid")

    rank: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    seconds: Annotated[int, Field(ge=1, le=MOST_SECONDS)] = 5


@dataclass(frozen=True)
class Wanted:
    """What an agent is asked for."""

    id: int
    seconds: int


def ask(run_id: int, request: ProfileRequest) -> Profile:
    """Ask for a profile of a rank.

    Raises:
        BadFieldError: the run has no such rank.
        ConflictError: the rank is not running, or is being profiled.
        NotFoundError: there is no such run.
    """
    with exclusive(STATE):
        run = life.find(run_id)
        its = (Rank.run == run) & (Rank.attempt == run.attempt)
        ranks = {rank.rank: rank for rank in Rank.select().where(its)}
        rank = ranks.get(request.rank)
        if run.state != "STARTED" or not ranks:
            raise ConflictError(f"run {run_id} is not running, so there is no process to profile")
        if rank is None:
            started = ", ".join(map(str, sorted(ranks)))
            raise BadFieldError(
                "rank", f"run {run_id} has started ranks {started} (got {request.rank})"
            )
        if rank.exit_code is not None or rank.lost:
            raise ConflictError(f"rank {rank.rank} of run {run_id} has ended")
        profiles = Profile.of_run(run)
        for old in profiles:
            if (old.attempt, old.rank) == (run.attempt, rank.rank) and not _is_done(old, run):
                raise ConflictError(f"rank {rank.rank} is being profiled (profile {old.get_id()})")
        for old in profiles[: 1 - _MOST]:
            old.delete_instance()
        asked = {"attempt": run.attempt, "rank": rank.rank, "seconds": request.seconds}
        new: Profile = Profile.create(run=run, asked_at=time.time(), **asked)
    notify()
    return new


def wanted_of(run_id: int | None, attempt: int | None, rank: int | None) -> Wanted | None:
    """Return the profile that a rank is asked for."""
    if run_id is None:
        return None
    since = time.time() - _PATIENCE_SECONDS
    found = run_sql(_WANTED, run_id, attempt, rank, since).fetchone()
    return Wanted(*map(int, found)) if found else None


def answer(pod: PodIdentity, profile_id: int, body: bytes) -> None:
    """Store what an agent has brought of a pod's rank: a line, then the file; the first counts.

    Raises:
        BadFieldError: it is no profile.
        NotFoundError: there is no such profile, or it is of another pod's rank.
        ConflictError: nobody waits for it any more.
    """
    line, _, content = body.partition(b"\n")
    try:
        recorded = Recorded.from_fields(exact_json.loads(line[:_MOST_LINE_BYTES]))
        _check(recorded, content)
    except (ValueError, RecursionError) as error:
        raise BadFieldError("body", str(error)[:LONGEST_TEXT]) from None
    with exclusive(STATE):
        asked = Profile.get_or_none(Profile.id == min(profile_id, _LARGEST))
        if asked is None or not Rank.is_of_pod(pod, asked.run_id, asked.attempt, asked.rank):
            raise NotFoundError(f"profile_id: no profile {profile_id} for this rank")
        if asked.recorded is not None:
            return
        if _is_done(asked, asked.run):
            raise ConflictError(
                f"profile {profile_id} is closed: the run ended or the agent answered too late"
            )
        digest = hashlib.sha256(content).hexdigest()
        about = {"recorded": recorded.to_fields(), "size": len(content), "sha256": digest}
        store(asked, **about, content=content or None)


def _check(recorded: Recorded, content: bytes) -> None:
    """Make sure that a profile can be shown, or raise a ValueError: what code says is foreign."""
    texts = [recorded.problem, *(one.name for one in recorded.operators)]
    if len(texts) > MOST_OPERATORS + 1 or any(len(one) > LONGEST_TEXT for one in texts):
        raise ValueError("a profile must have fewer or shorter texts")
    if bool(content) == bool(recorded.problem):
        raise ValueError("a profile must have either a file or a problem")


def stored(run: Run) -> list[RankProfile]:
    """Return the profiles of a run that is not imported."""
    return [describe(one, run) for one in Profile.of_run(run)]


def describe(profile: Profile, run: Run) -> RankProfile:
    """Return what is known of a profile."""
    is_done = _is_done(profile, run)
    recorded = Recorded.from_fields(profile.recorded) if profile.recorded else None
    return RankProfile(
        id=profile.get_id(),
        attempt=profile.attempt,
        rank=profile.rank,
        seconds=profile.seconds,
        asked_at=times.seconds_to_text(profile.asked_at),
        done=is_done,
        tool=recorded.tool if recorded else "",
        began_at=times.seconds_to_text(recorded.began_at) if recorded else None,
        ended_at=times.seconds_to_text(recorded.ended_at) if recorded else None,
        problem=recorded.problem if recorded else "its agent has not brought it in time" * is_done,
        file=profile.file,
        size=profile.size or None,
        operators=recorded.operators if recorded else (),
    )


def listed_in(document: Any) -> list[RankProfile]:
    """Return the profiles that an archive's description of its run lists.

    Raises:
        ValueError: it is malformed.
    """
    return [RankProfile.from_fields(one) for one in document.get("profiles", [])[:_MOST]]


def _is_done(one: Profile, run: Run) -> bool:
    over_at: float = one.asked_at + one.seconds + _PATIENCE_SECONDS
    is_over = run.state != "STARTED" or run.attempt != one.attempt
    return one.recorded is not None or is_over or time.time() > over_at
