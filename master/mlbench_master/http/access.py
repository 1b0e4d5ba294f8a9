"""Access control: tokens, sessions, and the Host and Origin of requests.

Users send the user token, browsers a session that was created with it, and agents the token of
their pod, which allows only polls and streams. With a joining token, the recorder of an external
job can get the token of a pod.
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
"""Callers that a resource allows. ``scrape``: anyone directly, but only users through a proxy."""

SESSION_SECONDS = 30 * 24 * 3600
"""Lifetime of a session."""

# Headers that proxies, such as the ingress of a cluster, add to requests.
_PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
_WHOM = {"user": "users", "agent": "agents", "join": "recorders, with a joining token"}
_MISSING = (
    "Authorization: missing or wrong token. Send `Bearer TOKEN`, or the token as the password of "
    "HTTP Basic. A local stack has its token in connection.json of its home folder, a cluster in "
    "the release's Secret."
)
_ANOTHER = "Create a new one with `mlbench token join`."
_EXPIRED = f"Authorization: the joining token has expired. {_ANOTHER}"
_REVOKED = f"Authorization: the joining token was revoked. {_ANOTHER}"
_FOREIGN = f"Authorization: the joining token belongs to another master. {_ANOTHER}"


def access_of(resource: object) -> Access:
    """Return the attribute ``access`` of a resource; the default is ``user``."""
    access: Access = getattr(resource, "access", "user")
    return access


def own_pod(req: Request, name: str) -> PodIdentity:
    """Return the pod of an agent's token; refuse the request (403) if it names another pod."""
    pod: PodIdentity = req.context.pod
    if pod.name != name:
        raise falcon.HTTPForbidden(description="pod: token belongs to another pod")
    return pod


# --- Tokens ---


@dataclass(frozen=True)
class TokenMiddleware:
    """Checks that requests have the token that their resource requires."""

    user_token: str
    agent_secret: str
    """Secret from which the tokens of pods are derived."""
    url: str
    """Address of the master for browsers."""

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse the request with 401 without a valid token, with 403 for another kind of token.

        Resources of agents find the pod, a ``PodIdentity``, in ``req.context.pod``. The resource
        for joining finds the holder of the token (empty for a user) in ``req.context.holder``, and
        the token's expiry in ``req.context.expires_at``.
        """
        access = access_of(resource)
        if access == "scrape":
            # Browsers call the master by its host name or through a proxy. The Prometheus of a
            # local stack calls the master by its address.
            host, public = _host(req), urlsplit(self.url).hostname
            is_public_name = host == public and not is_address(host) and host != "localhost"
            is_from_outside = is_public_name or any(req.get_header(name) for name in _PROXY_HEADERS)
            access = "user" if is_from_outside else "open"
        if access == "open":
            return
        token = _token_of(req)
        is_user = is_token(token, self.user_token)
        # Other programs on this host may have set cookies of the same name, so check all of them.
        if access in ("user", "join") and (
            is_user
            or any(
                is_session(session, self.user_token, time.time())
                for session in req.get_cookie_values(cookie_name(req.port)) or []
            )
        ):
            req.context.holder, req.context.expires_at = "", 0.0
            return
        pod = pod_token.identify(token, self.agent_secret)
        if access == "agent" and pod is not None:
            req.context.pod = pod
            return
        holder = join_token.holder_of(token, self.user_token, time.time())
        if access == "join" and holder is not None:
            if join_tokens.is_revoked(holder):
                raise falcon.HTTPUnauthorized(description=_REVOKED, challenges=_challenges(req))
            req.context.holder, req.context.expires_at = holder, join_token.expiry_of(token)
            return
        if pod is not None or holder is not None or is_user:
            raise falcon.HTTPForbidden(
                description=f"Authorization: this route is for {_WHOM[access]}"
            )
        problem = _MISSING
        if join_token.expiry_of(token):
            has_expired = join_token.holder_of(token, self.user_token, 0.0) is not None
            problem = _EXPIRED if has_expired else _FOREIGN
        raise falcon.HTTPUnauthorized(description=problem, challenges=_challenges(req))


def is_token(text: str, token: str) -> bool:
    """Compare a string with a token, in constant time."""
    return hmac.compare_digest(text.encode(), token.encode())


def _challenges(req: Request) -> list[str]:
    # For requests of scripts, browsers would open a dialog for HTTP Basic.
    is_script = req.get_header("Sec-Fetch-Mode", default="navigate") != "navigate"
    return ['Bearer realm="mlbench"', *([] if is_script else ['Basic realm="mlbench"'])]


def _token_of(req: Request) -> str:
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


# --- Sessions: EXPIRY.SIGNATURE, signed with the user token, so a new token ends all of them ---


def cookie_name(port: int) -> str:
    """Return the name of the cookie. It has the port, because browsers ignore ports of cookies."""
    return f"mlbench-session-{port}"


def make_session(token: str, now: float) -> str:
    """Return a new session for a user. ``now``: Unix seconds."""
    expiry = str(int(now) + SESSION_SECONDS)
    return f"{expiry}.{_sign(token, expiry)}"


def is_session(text: str, token: str, now: float) -> bool:
    """Return whether a string is a valid session for the user token. ``now``: Unix seconds."""
    expiry, _, signature = text.partition(".")
    if not join_token.is_expiry(expiry):
        return False
    return is_token(signature, _sign(token, expiry)) and now < int(expiry)


def _sign(token: str, expiry: str) -> str:
    return hmac.new(token.encode(), f"session {expiry}".encode(), hashlib.sha256).hexdigest()


# --- Hosts and origins ---


@dataclass(frozen=True)
class OriginMiddleware:
    """Refuses requests for other hosts, and requests from pages of other sites.

    Any page in the user's browser can send requests to this machine. With a host name of its own
    that resolves to this machine, it could also read the responses (DNS rebinding). The Host and
    Origin headers reveal both. IP addresses are allowed as Host, because they are not resolved.
    """

    allowed_hosts: Set[str]

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse requests for another Host with 421, from another Origin with 403.

        Open routes except pages accept any Host, because probes may use names of their own.
        """
        host = _host(req)
        is_own = host in self.allowed_hosts or is_address(host)
        if not is_own and not getattr(resource, "any_host", access_of(resource) == "open"):
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
    """Return the host of the Host header, without port; empty if it is malformed."""
    header = req.get_header("Host", default="")
    try:
        # Falcon does not check for a missing closing bracket.
        return "" if header.startswith("[") and "]" not in header else req.host.lower()
    except ValueError:
        return ""
