"""Requests through a proxy: the path below which it serves the master, and its headers."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any

_PROTO = "HTTP_X_FORWARDED_PROTO"
_HOST = "HTTP_X_FORWARDED_HOST"
# Only proxies may set these headers. Any other client could claim to be someone with them.
_TRUSTED_HEADERS = (_PROTO, _HOST)


@dataclass(frozen=True)
class Proxies:
    """The proxies in front of the master."""

    root_path: str = ""
    """Path below which browsers reach the master, such as ``/mlbench``; empty: at ``/``."""
    trusted: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses of proxies whose headers name the scheme and host that a client used."""

    def restore(self, environ: dict[str, Any]) -> None:
        """Change a WSGI environment to that of a client's request without a proxy.

        The root path is optional, because some proxies remove it, and agents call the master
        directly.
        """
        path: str = environ["PATH_INFO"].removeprefix(self.root_path)
        if not path or path.startswith("/"):
            environ["PATH_INFO"] = path or "/"
        # A proxy behind other proxies gets a list, of which the client's own entry is the first.
        sent = {name: environ.pop(name, "").partition(",")[0].strip() for name in _TRUSTED_HEADERS}
        address = environ.get("REMOTE_ADDR")
        if not (address and any(ip_address(address) in network for network in self.trusted)):
            return
        if sent[_PROTO] in {"http", "https"}:
            environ["wsgi.url_scheme"] = sent[_PROTO]
        if sent[_HOST]:
            environ["HTTP_HOST"] = sent[_HOST]
