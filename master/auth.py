"""Who may do what: users show the token, agents a token that can only poll and ship."""

import base64
import hmac
from dataclasses import dataclass
from typing import Literal

import falcon
from falcon import Request, Response

Access = Literal["open", "user", "agent"]


def access_of(resource: object) -> Access:
    """Return who may use a resource: its attribute ``access``; without one it is for users."""
    access: Access = getattr(resource, "access", "user")
    return access


@dataclass(frozen=True)
class TokenMiddleware:
    """Lets a request through to its resource if it shows the token that the resource asks for."""

    user_token: str
    agent_token: str

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse the request with 401 if it shows no token, with 403 if it shows the other one."""
        access = access_of(resource)
        if access == "open":
            return
        shown = _shown_token(req)
        if _equal(shown, self.agent_token if access == "agent" else self.user_token):
            return
        if _equal(shown, self.agent_token) or _equal(shown, self.user_token):
            raise falcon.HTTPForbidden(description=f"this route is for {access}s")
        raise falcon.HTTPUnauthorized(
            description="Authorization: show the token, as `Bearer TOKEN` or as the password of "
            "HTTP Basic; it is in connection.json of a local stack's home folder, in a cluster in "
            "the release's Secret",
            challenges=['Bearer realm="mlbench"', 'Basic realm="mlbench"'],
        )


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


def _equal(shown: str, token: str) -> bool:
    return hmac.compare_digest(shown.encode(), token.encode())
