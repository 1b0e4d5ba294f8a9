"""Profiles of ranks: requests, and the files that agents send.

The file of a profile is one of the run's files, which are read, sealed, exported and deleted alike.
"""

import hashlib
import time
from dataclasses import dataclass
from typing import Annotated, Any

from mlbench.contract.fields import Field
from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.profiles import (
    MAX_BYTES,
    MAX_OPERATORS,
    MAX_SECONDS,
    MAX_TEXT_LENGTH,
    ProfileResult,
    RankProfile,
)
from mlbench_master import exact_json, timestamps
from mlbench_master.database.connection import STATE, exclusive, run_sql, store
from mlbench_master.database.models import Profile, Rank, Run
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError
from mlbench_master.notify import notify
from mlbench_master.openapi.parameters import Number
from mlbench_master.runs import lifecycle
from mlbench_master.runs.presenters import columns_of

_PATIENCE_SECONDS = 240.0
"""Time to write and send a profile, in addition to the profiled seconds."""
_MAX_PROFILES = 5
"""Maximum number of profiles per run. The oldest ones are deleted."""
_MAX_LINE_BYTES = 64 << 10
MAX_BODY_BYTES = MAX_BYTES + _MAX_LINE_BYTES
# Raw SQL, because a thousand agents poll.
_PENDING = """
    SELECT id, seconds FROM profile
    WHERE run_id = ? AND attempt = ? AND rank = ? AND recorded IS NULL AND asked_at + seconds > ?
"""


@dataclass(frozen=True)
class ProfileRequest:
    """The body of ``POST /api/runs/{id}/profiles/``."""

    rank: Number = 0
    """Rank to profile."""
    seconds: Annotated[int, Field(ge=1, le=MAX_SECONDS)] = 5
    """Seconds to profile."""


@dataclass(frozen=True)
class PendingProfile:
    """A profile that an agent must record."""

    id: int
    seconds: int


def ask(run_id: int, request: ProfileRequest) -> Profile:
    """Request a profile of a rank.

    Raises:
        BadFieldError: the run has no such rank.
        ConflictError: the rank is not running, or is being profiled.
        NotFoundError: the run does not exist.
    """
    with exclusive(STATE):
        run = lifecycle.find(run_id)
        rows = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt)
        ranks = {rank.rank: rank for rank in rows}
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
        for old in profiles[: 1 - _MAX_PROFILES]:
            old.delete_instance()
        profile: Profile = Profile.create(
            run=run,
            asked_at=time.time(),
            attempt=run.attempt,
            rank=rank.rank,
            seconds=request.seconds,
        )
    notify()
    return profile


def wanted_of(run_id: int | None, attempt: int | None, rank: int | None) -> PendingProfile | None:
    """Return the pending profile of a rank; None for none."""
    if run_id is None:
        return None
    since = time.time() - _PATIENCE_SECONDS
    row = run_sql(_PENDING, run_id, attempt, rank, since).fetchone()
    return PendingProfile(*map(int, row)) if row else None


def answer(pod: PodIdentity, profile_id: int, body: bytes) -> None:
    """Store a profile that an agent sends: a line of JSON, then the file. Only the first counts.

    Raises:
        BadFieldError: the body is malformed.
        NotFoundError: the profile does not exist, or belongs to another pod's rank.
        ConflictError: the profile arrives too late.
    """
    line, _, content = body.partition(b"\n")
    try:
        recorded = ProfileResult.from_fields(exact_json.loads(line[:_MAX_LINE_BYTES]))
        # The texts come from profiled code, and must not be too long to show.
        texts = [recorded.problem, *(operator.name for operator in recorded.operators)]
        texts += [text for line in recorded.lines for text in (line.name, line.activity)]
        rows = max(len(recorded.operators), len(recorded.lines))
        if rows > MAX_OPERATORS or any(len(text) > MAX_TEXT_LENGTH for text in texts):
            raise ValueError("a profile must have fewer or shorter texts")
        if bool(content) == bool(recorded.problem):
            raise ValueError("a profile must have either a file or a problem")
    except (ValueError, RecursionError) as error:
        raise BadFieldError("body", str(error)[:MAX_TEXT_LENGTH]) from None
    with exclusive(STATE):
        profile = Profile.get_or_none(Profile.id == min(profile_id, 2**53))
        if profile is None or not Rank.is_of_pod(
            pod, profile.run_id, profile.attempt, profile.rank
        ):
            raise NotFoundError(f"profile_id: no profile {profile_id} for this rank")
        if profile.recorded is not None:
            return
        if _is_done(profile, profile.run):
            raise ConflictError(
                f"profile {profile_id} is closed: the run ended or the agent answered too late"
            )
        digest = hashlib.sha256(content).hexdigest()
        fields = {"recorded": recorded.to_fields(), "size": len(content), "sha256": digest}
        store(profile, **fields, content=content or None)


def stored(run: Run) -> list[RankProfile]:
    """Return the profiles of a run that is not imported."""
    return [describe(profile, run) for profile in Profile.of_run(run)]


def describe(profile: Profile, run: Run) -> RankProfile:
    """Return the API record of a profile."""
    is_done = _is_done(profile, run)
    recorded = ProfileResult.from_fields(profile.recorded) if profile.recorded else None
    return RankProfile(
        **columns_of(profile, RankProfile) | {"size": profile.size or None},
        done=is_done,
        tool=recorded.tool if recorded else "",
        began_at=timestamps.seconds_to_text(recorded.began_at) if recorded else None,
        ended_at=timestamps.seconds_to_text(recorded.ended_at) if recorded else None,
        problem=recorded.problem if recorded else "its agent has not brought it in time" * is_done,
        file=profile.file,
        operators=recorded.operators if recorded else (),
        lines=recorded.lines if recorded else (),
    )


def listed_in(document: Any) -> list[RankProfile]:
    """Return the profiles that an archive's description of its run lists.

    Raises:
        ValueError: the description is malformed.
    """
    return [
        RankProfile.from_fields(fields) for fields in document.get("profiles", [])[:_MAX_PROFILES]
    ]


def _is_done(profile: Profile, run: Run) -> bool:
    deadline: float = profile.asked_at + profile.seconds + _PATIENCE_SECONDS
    has_ended = run.state != "STARTED" or run.attempt != profile.attempt
    return profile.recorded is not None or has_ended or time.time() > deadline
