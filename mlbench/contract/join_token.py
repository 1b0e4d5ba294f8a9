"""Joining tokens: they allow processes of external jobs to be recorded, and nothing else.

The format is ``join.HOLDER.EXPIRY.SIGNATURE``, signed with the user's token. A new token of the
user therefore invalidates all joining tokens.
"""

import hashlib
import hmac
import secrets
import time

_KIND = "join"


def new_holder() -> str:
    """Return a unique holder. Job keys are unique per holder."""
    return secrets.token_hex(16)


def make(user_token: str, expires_at: int, holder: str) -> str:
    """Return the joining token of a holder that is valid until ``expires_at`` (Unix seconds)."""
    return ".".join((_KIND, holder, str(expires_at), _sign(user_token, holder, str(expires_at))))


def holder_of(shown: str, user_token: str, now: float) -> str | None:
    """Return the holder of a joining token; None if it is another user's, or has expired."""
    kind, _, rest = shown.partition(".")
    holder, _, rest = rest.partition(".")
    expiry, _, signature = rest.partition(".")
    if not is_expiry(expiry):
        return None
    # The comparison takes constant time, so its duration reveals nothing about the signature.
    is_right = hmac.compare_digest(signature.encode(), _sign(user_token, holder, expiry).encode())
    return holder if is_right and kind == _KIND and now < int(expiry) else None


def expiry_of(shown: str) -> int:
    """Return the unverified expiry of a joining token, in Unix seconds; 0 for another token."""
    kind, _, rest = shown.partition(".")
    expiry = rest.partition(".")[2].partition(".")[0]
    return int(expiry) if kind == _KIND and is_expiry(expiry) else 0


def why_refused(shown: str, now: float) -> str:
    """Return the probable reason why a master refused a token, without knowing its secret."""
    expires_at = expiry_of(shown)
    if not expires_at:
        return "the token is not this master's"
    if now < expires_at:
        return "the joining token was revoked, or is another master's"
    return f"the joining token expired on {time.strftime('%Y-%m-%d', time.gmtime(expires_at))}"


def is_expiry(text: str) -> bool:
    """Check that a text, such as a part of a token, is a number of seconds since 1970."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def _sign(user_token: str, holder: str, expiry: str) -> str:
    text = f"{_KIND} {holder} {expiry}"
    return hmac.new(user_token.encode(), text.encode(), hashlib.sha256).hexdigest()
