"""Requests through a proxy: the path below which it serves the master, and its headers."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

from mlbench.contract.people import clean_user

USER_KEY = "mlbench.user"
"""Key of the user that a proxy has signed in, in the WSGI environment of a request."""
_PROTO = "HTTP_X_FORWARDED_PROTO"
_HOST = "HTTP_X_FORWARDED_HOST"
# oauth2-proxy sends the name, if there is one, beside the identifier of the user.
_USERS = ("HTTP_X_FORWARDED_PREFERRED_USERNAME", "HTTP_X_FORWARDED_USER")


@dataclass(frozen=True)
class Proxies:
    """The proxies in front of the master."""

    root_path: str = ""
    """Path below which browsers reach the master, such as ``/mlbench``; empty: at ``/``."""
    trusted: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses of proxies whose headers name the scheme and host that a client used."""
    sign_in: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses of proxies whose headers name the user that they have signed in."""

    def restore(self, environ: dict[str, Any]) -> None:
        """Change a WSGI environment to that of a client's request without a proxy.

        The root path is optional, because some proxies remove it, and agents call the master
        directly.
        """
        path: str = environ["PATH_INFO"].removeprefix(self.root_path)
        if not path or path.startswith("/"):
            environ["PATH_INFO"] = path or "/"
        if not (self.trusted or self.sign_in) or not environ.get("REMOTE_ADDR"):
            return
        address = ip_address(environ["REMOTE_ADDR"])
        # A master that listens on "::" sees clients with IPv4 as ::ffff:10.1.2.3.
        address = getattr(address, "ipv4_mapped", None) or address
        if any(address in network for network in self.trusted):
            # A proxy behind other proxies gets a list, which begins with the client's own value.
            proto, host = (
                environ.get(name, "").partition(",")[0].strip() for name in (_PROTO, _HOST)
            )
            if proto in {"http", "https"}:
                environ["wsgi.url_scheme"] = proto
            environ["HTTP_HOST"] = host or environ.get("HTTP_HOST", "")
        if any(address in network for network in self.sign_in):
            users = (clean_user(environ.get(name, "")) for name in _USERS)
            environ[USER_KEY] = next(filter(None, users), "")
