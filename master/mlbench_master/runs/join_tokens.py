"""Named tokens of this master: holders, roles, usage, and quotas of joining tokens."""

import time
from dataclasses import dataclass
from typing import Annotated

from peewee import fn

from mlbench.contract import join_token
from mlbench.contract.fields import NO_NUL, Field
from mlbench.contract.names import ACTIVE_STATES
from mlbench.contract.people import MAX_USER_LENGTH, Role, clean_user
from mlbench.contract.records import JoinToken as TokenRecord
from mlbench_master.database.connection import STATE, exclusive, run_sql, store
from mlbench_master.database.models import JoinToken
from mlbench_master.errors import NotFoundError, TooManyError
from mlbench_master.runs.presenters import columns_of
from mlbench_master.settings import InstallationLimits

_STATES = ", ".join("?" * len(ACTIVE_STATES))
_ACTIVE = f"""
    SELECT COUNT(*), COALESCE(SUM(num_workers), 0) FROM run
    WHERE substr(job_key, 1, ?) = ? AND state IN ({_STATES})
"""  # noqa: S608 - question marks alone


@dataclass(frozen=True)
class TokenRequest:
    """The body of ``POST /api/tokens/``."""

    name: Annotated[str, Field(max_length=MAX_USER_LENGTH, pattern=NO_NUL)]
    """User of the token. It may be empty, or a purpose, for the role ``record`` only."""
    role: Role = "record"
    days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days until the token expires."""

    def __post_init__(self) -> None:
        if self.role != "record" and not clean_user(self.name):
            raise ValueError(f"name: required with the role {self.role}. Name the user.")


def create(request: TokenRequest, user_token: str) -> TokenRecord:
    """Create a token, and return it with its text, which is not stored."""
    now = time.time()
    JoinToken.delete().where(JoinToken.expires_at < now).execute()
    holder, expires_at = join_token.new_holder(), int(now) + request.days * 86400
    token = JoinToken.create(
        holder=holder,
        name=request.name,
        role=request.role,
        created_at=now,
        expires_at=expires_at,
    )
    return _describe(token, join_token.make(user_token, expires_at, holder, request.role))


def list_all() -> list[TokenRecord]:
    """Return the tokens that have not expired, oldest first."""
    by_age = fn.COALESCE(JoinToken.created_at, 0)
    valid = JoinToken.select().where(JoinToken.expires_at >= time.time())
    return [_describe(token) for token in valid.order_by(by_age, JoinToken.holder)]


def revoke(holder: str) -> TokenRecord:
    """Revoke a token. Ranks that have already joined keep their own tokens."""
    with exclusive(STATE):
        token = _find(holder)
        if token is None:
            raise NotFoundError(
                f"token_id: token {holder} not found. List tokens with `mlbench token list`."
            )
        if token.revoked_at is None:
            store(token, revoked_at=time.time())
    return _describe(token)


def user_of(holder: str) -> str | None:
    """Return the user of a holder's token, "" if it is unknown; None if the token was revoked."""
    token = _find(holder)
    if token is None:  # It was created elsewhere.
        return ""
    return None if token.revoked_at else clean_user(token.name)


def note_use(holder: str, expires_at: float) -> None:
    """Record that a process joins with a token, which may be missing in the table."""
    if _find(holder) is None:
        JoinToken.create(holder=holder, expires_at=expires_at)
    JoinToken.update(last_used_at=time.time()).where(JoinToken.holder == holder).execute()


def admit_run(holder: str, num_workers: int, limits: InstallationLimits) -> None:
    """Count a run against the quota of its token.

    Raises:
        TooManyError: the token has too many active runs or ranks, or starts runs too fast.
    """
    prefix = f"{holder}/"
    runs, ranks = run_sql(_ACTIVE, len(prefix), prefix, *ACTIVE_STATES).fetchone()
    if runs >= limits.join_runs:
        raise TooManyError(f"token: the {runs} active runs are its maximum. Wait for one to end.")
    if ranks + num_workers > limits.join_ranks:
        raise TooManyError(
            f"num_workers: must be at most {limits.join_ranks - ranks} (got {num_workers}): the "
            f"token's active runs have {ranks} of {limits.join_ranks} ranks. Wait for one to end."
        )
    token, now = JoinToken.get_by_id(holder), time.time()
    # A leaky bucket: it leaks at the permitted rate, and holds the runs of one minute.
    leaked = max(0.0, now - token.recent_at) * limits.join_rate / 60
    recent = max(0.0, token.recent_runs - leaked) + 1
    if recent > limits.join_rate:
        raise TooManyError(
            f"token: at most {limits.join_rate} new runs per minute. Try again in a few seconds."
        )
    store(token, recent_runs=recent, recent_at=now, runs=token.runs + 1)


def _find(holder: str) -> JoinToken | None:
    token: JoinToken | None = JoinToken.get_or_none(JoinToken.holder == holder)
    return token


def _describe(token: JoinToken, text: str | None = None) -> TokenRecord:
    return TokenRecord(id=token.holder, token=text, **columns_of(token, TokenRecord))
