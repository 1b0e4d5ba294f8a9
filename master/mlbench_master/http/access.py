"""Who may do what, and from where: tokens, sessions, and the Host and Origin of requests.

Users show the token, browsers a session that they got for it, agents the token of their pod, which
can only poll and ship. With a joining token, the recorder of a process can ask for a pod's.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Set
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import falcon
from falcon import Request, Response

from mlbench.contract import join_token, pod_token
from mlbench.contract.pod_token import PodIdentity
from mlbench.local.serving import is_address
from mlbench_master.runs import join_tokens

Access = Literal["open", "user", "agent", "join", "scrape"]
"""Who may call a resource; ``scrape``: everybody directly, and users through a proxy."""

SESSION_SECONDS = 30 * 24 * 3600
"""How long a session is good for."""

# Headers that proxies add to what they pass on, such as the ingress of a cluster.
_PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
_WHOM = {"user": "users", "agent": "agents", "join": "recorders, with a joining token"}
_UNSHOWN = (
    "Authorization: missing or wrong token. Send `Bearer TOKEN`, or the token as the password of "
    "HTTP Basic. A local stack has its token in connection.json of its home folder, a cluster in "
    "the release's Secret."
)
_ANOTHER = "Create a new one with `mlbench token join`."
_EXPIRED = f"Authorization: the joining token has expired. {_ANOTHER}"
_REVOKED = f"Authorization: the joining token was revoked. {_ANOTHER}"
_FOREIGN = f"Authorization: the joining token belongs to another master. {_ANOTHER}"


def access_of(resource: object) -> Access:
    """Return the attribute ``access`` of a resource; without one, it is for users."""
    access: Access = getattr(resource, "access", "user")
    return access


def own_pod(req: Request, name: str) -> PodIdentity:
    """Return the pod that an agent's request speaks for, or refuse (403) if it has another name."""
    pod: PodIdentity = req.context.pod
    if pod.name != name:
        raise falcon.HTTPForbidden(description="pod: token belongs to another pod")
    return pod


# --- Tokens ---


@dataclass(frozen=True)
class TokenMiddleware:
    """Lets a request through to its resource if it shows the token that the resource asks for."""

    user_token: str
    agent_secret: str
    """What the tokens of pods are made with."""
    url: str
    """Where a browser reaches the master."""

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse the request with 401 if it shows no token, with 403 if it shows another kind.

        An agent's resource finds the pod that asks, a ``PodIdentity``, in ``req.context.pod``, and
        one for joining the holder of the token, empty for a user, in ``req.context.holder``, and
        when the token expires in ``req.context.expires_at``.
        """
        access = access_of(resource)
        if access == "scrape":
            access = "user" if self._is_from_outside(req) else "open"
        if access == "open":
            return
        shown = _shown_token(req)
        is_user = is_token(shown, self.user_token)
        if access in ("user", "join") and (is_user or self._has_session(req)):
            req.context.holder, req.context.expires_at = "", 0.0
            return
        pod = pod_token.identify(shown, self.agent_secret)
        if access == "agent" and pod is not None:
            req.context.pod = pod
            return
        holder = join_token.holder_of(shown, self.user_token, time.time())
        if access == "join" and holder is not None:
            if join_tokens.is_revoked(holder):
                raise falcon.HTTPUnauthorized(description=_REVOKED, challenges=_challenges(req))
            req.context.holder, req.context.expires_at = holder, join_token.expiry_of(shown)
            return
        if pod is not None or holder is not None or is_user:
            raise falcon.HTTPForbidden(
                description=f"Authorization: this route is for {_WHOM[access]}"
            )
        why = _UNSHOWN
        if join_token.expiry_of(shown):
            has_expired = join_token.holder_of(shown, self.user_token, 0.0) is not None
            why = _EXPIRED if has_expired else _FOREIGN
        raise falcon.HTTPUnauthorized(description=why, challenges=_challenges(req))

    def _is_from_outside(self, req: Request) -> bool:
        """Check if a request came through a proxy, or by the name that browsers use.

        A Prometheus beside the master calls it by its address.
        """
        host, public = _host(req), urlsplit(self.url).hostname
        is_public_name = host == public and not is_address(host) and host != "localhost"
        return is_public_name or any(req.get_header(name) for name in _PROXY_HEADERS)

    def _has_session(self, req: Request) -> bool:
        # Another program of this host may have set one of the same name.
        sessions = req.get_cookie_values(cookie_name(req.port)) or []
        return any(is_session(session, self.user_token, time.time()) for session in sessions)


def is_token(shown: str, token: str) -> bool:
    """Compare what was shown with a token, in a time that does not depend on where they differ."""
    return hmac.compare_digest(shown.encode(), token.encode())


def _challenges(req: Request) -> list[str]:
    # The browser of a page's script would open a dialog for HTTP Basic.
    is_script = req.get_header("Sec-Fetch-Mode", default="navigate") != "navigate"
    return ['Bearer realm="mlbench"', *([] if is_script else ['Basic realm="mlbench"'])]


def _shown_token(req: Request) -> str:
    scheme, _, credentials = (req.auth or "").partition(" ")
    match scheme.lower():
        case "bearer":
            return credentials.strip()
        case "basic":
            try:
                user = base64.b64decode(credentials, validate=True).decode()
            except ValueError:
                return ""
            return user.partition(":")[2]
        case _:
            return ""


# --- Sessions: EXPIRY.SIGNATURE, signed with the token, so that another token ends them all ---


def cookie_name(port: int) -> str:
    """Return the name of the cookie: browsers send a host's cookies to all of its ports."""
    return f"mlbench-session-{port}"


def make_session(token: str, now: float) -> str:
    """Return a session that begins ``now`` (Unix seconds), for somebody who showed the token."""
    expiry = str(int(now) + SESSION_SECONDS)
    return f"{expiry}.{_sign(token, expiry)}"


def is_session(text: str, token: str, now: float) -> bool:
    """Check that a text is a session made with this token, which has not expired."""
    expiry, _, signature = text.partition(".")
    if not join_token.is_expiry(expiry):
        return False
    return is_token(signature, _sign(token, expiry)) and now < int(expiry)


def _sign(token: str, expiry: str) -> str:
    return hmac.new(token.encode(), f"session {expiry}".encode(), hashlib.sha256).hexdigest()


# --- Hosts and origins ---


@dataclass(frozen=True)
class OriginMiddleware:
    """Refuses requests that were meant for another host, or come from another site's page.

    A page that the user's browser shows can send requests to this machine, and by a name of its
    own that leads here it could also read the answers (DNS rebinding). The Host and Origin headers
    tell. An address as Host is no such name: nobody else can make it lead here.
    """

    allowed_hosts: Set[str]

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse with 421 a foreign Host, with 403 a foreign Origin.

        Open routes that are no pages take any Host: probes may call them by one of their own.
        """
        host = _host(req)
        is_here = host in self.allowed_hosts or is_address(host)
        if not is_here and not getattr(resource, "any_host", access_of(resource) == "open"):
            raise falcon.HTTPError(
                falcon.HTTP_421,
                description=f"Host: must be {' or '.join(sorted(self.allowed_hosts))} "
                f"(got {req.get_header('Host')!r}). Allow others with $MLBENCH_ALLOWED_HOSTS.",
            )
        origin = req.get_header("Origin")
        if origin not in {None, f"http://{req.netloc}", f"https://{req.netloc}"}:
            raise falcon.HTTPForbidden(
                description=f"Origin: pages of other sites must not send requests (got {origin!r})"
            )


def _host(req: Request) -> str:
    """Return the name by which the client calls, without port; empty if it is malformed."""
    header = req.get_header("Host", default="")
    try:
        # An opened bracket that is never closed, Falcon lets pass.
        return "" if header.startswith("[") and "]" not in header else req.host.lower()
    except ValueError:
        return ""
