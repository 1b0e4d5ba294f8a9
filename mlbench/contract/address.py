"""Address of a master, with an optional token. Standard library only."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mlbench.contract.errors import MLBenchError


@dataclass(frozen=True)
class Address:
    """The address of a master."""

    url: str
    """Root URL without user, token and final slash, for display."""
    token: str | None
    """Token in the address; None without one."""
    hint: str = "is the stack running? `mlbench up` starts it"
    """Advice for a master that does not respond."""


def parse_address(text: str) -> Address:
    """Return the address in a text: ``host:port/path``, or a whole URL.

    Both may contain the token as a password: ``user:TOKEN@host:port``.

    Raises:
        MLBenchError: the text is not an address.
    """
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        is_address = bool(url.hostname) and url.scheme in {"http", "https"} and url.port != 0
    except ValueError:
        is_address = False
    if not is_address or not text.isprintable() or " " in text:
        raise MLBenchError("url: must be host:port or http(s)://host:port")
    host = url.netloc.rpartition("@")[2]
    root = url._replace(netloc=host, query="", fragment="").geturl().rstrip("/")
    return Address(root, unquote(url.password) if url.password else None)
