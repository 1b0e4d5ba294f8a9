"""Which requests come from here: a foreign Host or a page of another site is refused.

A page that the user's browser shows can send requests to this machine, and by a name of its own
that leads here it could also read the answers (DNS rebinding). The Host and Origin headers tell.
An address as Host is no such name: nobody else can make it lead here.
"""

from collections.abc import Set
from dataclasses import dataclass

import falcon
from falcon import Request, Response

from master.auth import access_of
from mlbench.serving import is_address


@dataclass(frozen=True)
class OriginMiddleware:
    """Refuses what was meant for another host, or comes from another site's page."""

    allowed_hosts: Set[str]

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, object]
    ) -> None:
        """Refuse with 421 a foreign Host, with 403 a foreign Origin.

        Open routes that are no pages take any Host: probes may call them by one of their own.
        """
        if not _takes_any_host(resource) and not self._is_here(_host(req)):
            raise falcon.HTTPError(
                falcon.HTTP_421,
                description=f"Host: this master is {', '.join(sorted(self.allowed_hosts))} "
                f"(not {req.get_header('Host')!r}); $MLBENCH_ALLOWED_HOSTS adds others",
            )
        origin = req.get_header("Origin")
        if origin not in {None, f"http://{req.netloc}", f"https://{req.netloc}"}:
            raise falcon.HTTPForbidden(
                description=f"Origin: pages of another site may not send requests (not {origin!r})"
            )

    def _is_here(self, host: str) -> bool:
        """Return whether a host is this master: an address always is, as it names no other."""
        return host in self.allowed_hosts or is_address(host)


def _takes_any_host(resource: object) -> bool:
    """Return a resource's attribute ``any_host``; without one, whether it is open."""
    takes_any: bool = getattr(resource, "any_host", access_of(resource) == "open")
    return takes_any


def _host(req: Request) -> str:
    """Return the name by which the client calls, without port; empty if it is malformed."""
    header = req.get_header("Host", default="")
    try:
        # An opened bracket that is never closed, Falcon lets pass.
        return "" if header.startswith("[") and "]" not in header else req.host.lower()
    except ValueError:
        return ""
