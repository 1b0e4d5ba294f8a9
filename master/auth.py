"""Who may do what: users show the token, agents that of their pod, which can only poll and ship.

A browser that a user has signed in shows a session instead.
"""

import base64
import hmac
import time
from dataclasses import dataclass
from typing import Literal

import falcon
from falcon import Request, Response

from master.session import cookie_name, is_session
from mlbench import pod_token
from mlbench.pod_token import PodIdentity

Access = Literal["open", "user", "agent"]


def access_of(resource: object) -> Access:
    """Return who may use a resource: its attribute ``access``; without one it is for users."""
    access: Access = getattr(resource, "access", "user")
    return access


@dataclass(frozen=True)
class TokenMiddleware:
    """Lets a request through to its resource if it shows the token that the resource asks for."""

    user_token: str
    agent_secret: str
    """What the tokens of pods are made with."""

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse the request with 401 if it shows no token, with 403 if it shows the other kind.

        An agent's resource finds the pod that asks with ``asking_pod``.
        """
        access = access_of(resource)
        if access == "open":
            return
        if access == "user" and self._has_session(req):
            return
        shown = _shown_token(req)
        is_user = is_token(shown, self.user_token)
        pod = pod_token.identify(shown, self.agent_secret)
        if access == "agent" and pod is not None:
            req.context.pod = pod
            return
        if access == "user" and is_user:
            return
        if pod is not None or is_user:
            raise falcon.HTTPForbidden(description=f"this route is for {access}s")
        raise falcon.HTTPUnauthorized(
            description="Authorization: show the token, as `Bearer TOKEN` or as the password of "
            "HTTP Basic; it is in connection.json of a local stack's home folder, in a cluster in "
            "the release's Secret",
            challenges=_challenges(req),
        )

    def _has_session(self, req: Request) -> bool:
        # Another program of this host may have set one of the same name.
        sessions = req.get_cookie_values(cookie_name(req.port)) or []
        return any(is_session(one, self.user_token, time.time()) for one in sessions)


def asking_pod(req: Request) -> PodIdentity:
    """Return the pod whose token a request for an agent's resource shows."""
    pod: PodIdentity = req.context.pod
    return pod


def is_token(shown: str, token: str) -> bool:
    """Return whether what was shown is a token, in a time that tells nothing of it."""
    return hmac.compare_digest(shown.encode(), token.encode())


def _challenges(req: Request) -> list[str]:
    """Return how the token may be shown; to a page's script no way that its browser asks about."""
    is_script = req.get_header("Sec-Fetch-Mode", default="navigate") != "navigate"
    return ['Bearer realm="mlbench"', *([] if is_script else ['Basic realm="mlbench"'])]


def _shown_token(req: Request) -> str:
    scheme, _, credentials = (req.auth or "").partition(" ")
    match scheme.lower():
        case "bearer":
            return credentials.strip()
        case "basic":
            return _basic_password(credentials)
        case _:
            return ""


def _basic_password(credentials: str) -> str:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except ValueError:
        return ""
    return decoded.partition(":")[2]
