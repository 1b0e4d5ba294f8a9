"""What the document says of errors: an answer for each status, and those that all routes have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from master.auth import Access
from master.openapi.operation import JAVASCRIPT, JSON, View


class Error(View):
    """What went wrong."""

    status: int
    """The answer's status code again."""
    message: str
    """Which field or part of the request is wrong, and what would be right."""


@dataclass(frozen=True)
class _Kind:
    name: str
    description: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """The type of each header that comes along."""


_KINDS = {
    400: _Kind("BadRequest", "A field of the request is wrong.", "rank: run 3 has ranks 0 to 1"),
    401: _Kind(
        "NoToken",
        "No token was shown.",
        "Authorization: show the token, as `Bearer TOKEN` or as the password of HTTP Basic",
        {"WWW-Authenticate": "string"},
    ),
    403: _Kind("Forbidden", "Not with this token or from this page.", "this route is for users"),
    404: _Kind("NotFound", "There is no such thing.", "run_id: there is no run 12"),
    409: _Kind("Conflict", "Not in the state that it is in.", "run 3 is active: stop it first"),
    413: _Kind("BodyTooLarge", "The body is too large.", "body: at most 1048576 bytes"),
    414: _Kind("UrlTooLong", "The URL is too long.", "Request Line is too large (8192 > 4094)"),
    421: _Kind("ForeignHost", "For another host.", "Host: this master is localhost (not 'a.com')"),
    431: _Kind("HeadersTooLarge", "The headers are too large.", "limit request headers fields"),
    502: _Kind(
        "Incomplete",
        "Prometheus has lost or forgotten samples, so there is no whole answer any more.",
        "Prometheus has 10 of the 411 samples of run 7: it lost or forgot the rest "
        "(retention, a lost disk)",
    ),
    503: _Kind(
        "Unavailable", "Not for the moment.", "Prometheus is not ready", {"Retry-After": "integer"}
    ),
}
_OF_ALL = (400, 403, 414, 431)
_OF_ACCESS: Mapping[Access, tuple[int, ...]] = {"open": (), "user": (401, 421), "agent": (401, 421)}


def references(access: Access, others: tuple[int, ...]) -> dict[str, Any]:
    """Return the errors of an operation: those of all, those of its access, and others."""
    return {
        str(status): {"$ref": f"#/components/responses/{_KINDS[status].name}"}
        for status in sorted({*_OF_ALL, *_OF_ACCESS[access], *others})
    }


def components() -> dict[str, Any]:
    """Return the answers that the references lead to."""
    return {kind.name: _describe(status, kind) for status, kind in _KINDS.items()}


def _describe(status: int, kind: _Kind) -> dict[str, Any]:
    content = {
        "schema": {"$ref": f"#/components/schemas/{Error.__name__}"},
        "example": {"status": status, "message": kind.message},
    }
    headers = {name: {"schema": {"type": of}} for name, of in kind.headers.items()}
    return {
        "description": kind.description,
        **({"headers": headers} if headers else {}),
        "content": {JSON: content, JAVASCRIPT: content},
    }
