"""Access control: tokens, sessions, and the Host and Origin of requests.

Users send the user token or a named token with a role, browsers a session or a named token in a
cookie, and agents the token of their pod, which allows only polls and streams. With a joining
token, the recorder of an external job can get the token of a pod. A trusted proxy can sign in
users.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

import falcon
from falcon import Request, Response

from mlbench.contract import join_token, pod_token
from mlbench.contract.people import USER_HEADER, Role, decode_user
from mlbench.contract.pod_token import PodIdentity
from mlbench.local.serving import is_address
from mlbench_master.http.proxies import USER_KEY
from mlbench_master.runs import join_tokens

Access = Literal["open", "user", "admin", "agent", "join", "scrape"]
"""Callers that a resource allows. ``scrape``: anyone directly, but only users through a proxy."""

SESSION_SECONDS = 30 * 24 * 3600
"""Lifetime of a session."""

# Headers that proxies, such as the ingress of a cluster, add to requests.
_PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
_WHOM = {"agent": "agents", "join": "recorders, with a joining token"}
_MISSING = (
    "Authorization: missing or wrong token. Send `Bearer TOKEN`, or the token as the password of "
    "HTTP Basic. A local stack has its token in connection.json of its home folder, a cluster in "
    "the release's Secret."
)
_ANOTHER = "Create a new one with `mlbench token`."
_EXPIRED = f"Authorization: the token has expired. {_ANOTHER}"
_REVOKED = f"Authorization: the token was revoked. {_ANOTHER}"
_FOREIGN = f"Authorization: the token belongs to another master. {_ANOTHER}"


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
class Caller:
    """Sender of a request."""

    role: Role
    user: str = ""
    """Name; empty if it is unknown."""
    token_user: str = ""
    """User of the token, or whom a proxy has signed in; empty if only the client names a user."""
    holder: str = ""
    """Identifier of the named token; empty for other callers."""
    expires_at: float = 0.0
    """Expiry of the named token in Unix seconds; 0 for other callers."""


@dataclass(frozen=True)
class TokenMiddleware:
    """Checks that requests have the token that their resource requires."""

    user_token: str
    agent_secret: str
    """Secret from which the tokens of pods are derived."""
    url: str
    """Address of the master for browsers."""
    default_user: str = ""
    """User of requests that name no user."""

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse the request with 401 without a valid token, with 403 for another kind of token.

        Resources of agents find the pod, a ``PodIdentity``, in ``req.context.pod``. All others find
        the ``Caller`` in ``req.context.caller``.
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
        pod = pod_token.identify(token, self.agent_secret)
        if access == "agent" and pod is not None:
            req.context.pod = pod
            return
        # Other programs on this host may have set cookies of the same name, so check all of them.
        cookies = req.get_cookie_values(cookie_name(req.port)) or []
        callers = (find_caller(text, self.user_token) for text in (token, *cookies))
        caller = next(filter(None, callers), None)
        if caller is None and (user := req.env.get(USER_KEY)):
            caller = Caller("run", token_user=user)
        if pod is not None or (caller is not None and access == "agent"):
            raise falcon.HTTPForbidden(
                description=f"Authorization: this route is for {_WHOM.get(access, 'users')}"
            )
        if caller is None:
            problem = _MISSING
            if join_token.expiry_of(token):
                named = join_token.read(token, self.user_token, 0.0)
                is_valid = named is not None and time.time() < named.expires_at
                problem = _REVOKED if is_valid else _EXPIRED if named else _FOREIGN
            # For requests of scripts, browsers would open a dialog for HTTP Basic.
            is_script = req.get_header("Sec-Fetch-Mode", default="navigate") != "navigate"
            basic = [] if is_script else ['Basic realm="mlbench"']
            raise falcon.HTTPUnauthorized(
                description=problem, challenges=['Bearer realm="mlbench"', *basic]
            )
        roles = roles_of(resource, req.method)
        if caller.role not in roles:
            raise falcon.HTTPForbidden(
                description=f"Authorization: this route requires the role "
                f"{' or '.join(sorted(roles))} (got {caller.role})"
            )
        stated = decode_user(req.get_header(USER_HEADER, default=""))
        user = caller.token_user or stated or self.default_user
        req.context.caller = replace(caller, user=user)


def roles_of(resource: object, method: str) -> frozenset[Role]:
    """Return the roles that may send a request to a resource of users."""
    match access_of(resource):
        case "join":
            return frozenset({"record", "run", "admin"})
        case "admin":
            return frozenset({"admin"})
        case _ if method in ("GET", "HEAD"):
            return frozenset({"read", "run", "admin"})
    return frozenset({"run", "admin"})


def check_owner(req: Request, user: str, what: str) -> None:
    """Refuse (403) that a user changes what belongs to another user, unless as an admin."""
    caller: Caller = req.context.caller
    if caller.role != "admin" and caller.user != user:
        owner = f"the user {user}" if user else "no user"
        raise falcon.HTTPForbidden(
            description=f"Authorization: {what} belongs to {owner} (got {caller.user}). "
            "Ask an admin."
        )


def find_caller(text: str, user_token: str) -> Caller | None:
    """Return the caller with a token or a session; None for a wrong, expired or revoked one."""
    now = time.time()
    if is_token(text, user_token) or is_session(text, user_token, now):
        return Caller("admin")
    named = join_token.read(text, user_token, now)
    if named is None:
        return None
    user = join_tokens.user_of(named.holder)
    return None if user is None else Caller(named.role, "", user, named.holder, named.expires_at)


def is_token(text: str, token: str) -> bool:
    """Compare a string with a token, in constant time."""
    return hmac.compare_digest(text.encode(), token.encode())


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
