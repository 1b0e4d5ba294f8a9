"""Joining tokens: with one, processes that somebody else starts are recorded, and nothing else.

``join.HOLDER.EXPIRY.SIGNATURE``, signed with the user's token: the master keeps no list, and a new
token of the user ends them all.
"""

import hashlib
import hmac
import secrets
import time

_KIND = "join"
_HOLDER_BYTES = 16
# Seconds since 1970, until the year 33658.
_MAX_DIGITS = 12


def new_holder() -> str:
    """Return a holder that no other token has: jobs of one holder share their keys."""
    return secrets.token_hex(_HOLDER_BYTES)


def make(user_token: str, expires_at: int, holder: str) -> str:
    """Return the joining token of a holder that is good until ``expires_at`` (Unix seconds)."""
    return ".".join((_KIND, holder, str(expires_at), _sign(user_token, holder, str(expires_at))))


def holder_of(shown: str, user_token: str, now: float) -> str | None:
    """Return the holder of a joining token; None if it is none of this user's, or has expired."""
    kind, _, rest = shown.partition(".")
    holder, _, rest = rest.partition(".")
    expiry, _, signature = rest.partition(".")
    if not is_expiry(expiry):
        return None
    # In constant time, so that the duration tells nothing about the right signature.
    is_right = hmac.compare_digest(signature.encode(), _sign(user_token, holder, expiry).encode())
    return holder if is_right and kind == _KIND and now < int(expiry) else None


def expiry_of(shown: str) -> int:
    """Return when a joining token expires, in Unix seconds, unverified; 0 for another token."""
    kind, _, rest = shown.partition(".")
    expiry = rest.partition(".")[2].partition(".")[0]
    return int(expiry) if kind == _KIND and is_expiry(expiry) else 0


def why_refused(shown: str, now: float) -> str:
    """Return why a master may have refused a token, for somebody who does not know its secret."""
    expires_at = expiry_of(shown)
    if not expires_at:
        return "the token is not this master's"
    if now < expires_at:
        return "the joining token was revoked, or is another master's"
    return f"the joining token expired on {time.strftime('%Y-%m-%d', time.gmtime(expires_at))}"


def is_expiry(text: str) -> bool:
    """Check that a text, such as a part of a token, is a number of seconds since 1970."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _sign(user_token: str, holder: str, expiry: str) -> str:
    text = f"{_KIND} {holder} {expiry}"
    return hmac.new(user_token.encode(), text.encode(), hashlib.sha256).hexdigest()
