"""Named tokens: each has a role. Those of the role ``record`` are joining tokens.

The format is ``ROLE.HOLDER.EXPIRY.SIGNATURE``, signed with the user token; joining tokens begin
with ``join``. A new user token therefore invalidates all named tokens.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import Final

from mlbench.contract.people import Role

_ROLES: Final[dict[str, Role]] = {"join": "record", "read": "read", "run": "run", "admin": "admin"}
_KINDS: Final = {role: kind for kind, role in _ROLES.items()}


@dataclass(frozen=True)
class NamedToken:
    """Content of a named token."""

    role: Role
    holder: str
    """Unique identifier of the token."""
    expires_at: int
    """Expiry in Unix seconds."""


def new_holder() -> str:
    """Return a unique holder. Job keys are unique per holder."""
    return secrets.token_hex(16)


def make(user_token: str, expires_at: int, holder: str, role: Role = "record") -> str:
    """Return the token of a holder that is valid until ``expires_at`` (Unix seconds)."""
    content = f"{_KINDS[role]}.{holder}.{expires_at}"
    return f"{content}.{_sign(user_token, content)}"


def read(shown: str, user_token: str, now: float) -> NamedToken | None:
    """Return the content of a named token; None if it is another master's, or has expired."""
    content, _, signature = shown.rpartition(".")
    # The comparison takes constant time, so its duration reveals nothing about the signature.
    is_right = hmac.compare_digest(signature.encode(), _sign(user_token, content).encode())
    if not is_right or now >= expiry_of(shown):
        return None
    kind, holder, expiry = content.split(".")
    return NamedToken(_ROLES[kind], holder, int(expiry))


def expiry_of(shown: str) -> int:
    """Return the unverified expiry of a named token, in Unix seconds; 0 for another token."""
    kind, _, rest = shown.partition(".")
    expiry = rest.partition(".")[2].partition(".")[0]
    return int(expiry) if kind in _ROLES and is_expiry(expiry) else 0


def why_refused(shown: str, now: float) -> str:
    """Return the probable reason why a master refused a token, without knowing its secret."""
    expires_at = expiry_of(shown)
    if not expires_at:
        return "the token is not this master's"
    if now < expires_at:
        return "the token was revoked, or is another master's"
    return f"the token expired on {time.strftime('%Y-%m-%d', time.gmtime(expires_at))}"


def is_expiry(text: str) -> bool:
    """Check that a text, such as a part of a token, is a number of seconds since 1970."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def _sign(user_token: str, content: str) -> str:
    text = content.replace(".", " ")
    return hmac.new(user_token.encode(), text.encode(), hashlib.sha256).hexdigest()
