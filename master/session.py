"""Sessions: what a browser holds instead of the token. Pure: no clock, no request.

A session is ``EXPIRY.SIGNATURE``, signed with the token: another token ends them all.
"""

import hashlib
import hmac

SESSION_SECONDS = 30 * 24 * 3600
"""How long a session is good for."""
# Seconds since 1970, until the year 33658.
_MAX_DIGITS = 12


def cookie_name(port: int) -> str:
    """Return the name of the cookie: browsers send a host's cookies to all of its ports."""
    return f"mlbench-session-{port}"


def make_session(token: str, now: float) -> str:
    """Return a session for who has shown the token, which begins ``now`` (Unix seconds)."""
    expiry = str(int(now) + SESSION_SECONDS)
    return f"{expiry}.{_sign(token, expiry)}"


def is_session(text: str, token: str, now: float) -> bool:
    """Return whether a text is a session that this token was shown for, and has not expired."""
    expiry, _, signature = text.partition(".")
    if not (expiry.isascii() and expiry.isdecimal() and len(expiry) <= _MAX_DIGITS):
        return False
    is_ours = hmac.compare_digest(signature.encode(), _sign(token, expiry).encode())
    return is_ours and now < int(expiry)


def _sign(token: str, expiry: str) -> str:
    return hmac.new(token.encode(), f"session {expiry}".encode(), hashlib.sha256).hexdigest()
