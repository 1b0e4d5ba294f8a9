"""The address of a master, and the token that it may carry. Nothing here needs more than Python."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mlbench.contract.errors import MLBenchError


@dataclass(frozen=True)
class Address:
    """How to reach a master."""

    url: str
    """Its root, without user and token, so that it can be shown, and without a slash at its end."""
    token: str | None
    hint: str = "is the stack running? `mlbench up` starts it"
    """What to do if it does not answer."""


def parse_address(text: str) -> Address:
    """Return the address that a text names; MLBenchError if it names none.

    That is ``host:port/path``, as MLBench's users write it, or a whole URL. Both may have the token
    as their password: ``user:TOKEN@host:port``.
    """
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        is_address = bool(url.hostname) and url.scheme in {"http", "https"} and url.port != 0
    except ValueError:
        is_address = False
    if not is_address or not text.isprintable() or " " in text:
        raise MLBenchError("url: it must be host:port or http(s)://host:port")
    host = url.netloc.rpartition("@")[2]
    root = url._replace(netloc=host, query="", fragment="").geturl().rstrip("/")
    return Address(root, unquote(url.password) if url.password else None)
