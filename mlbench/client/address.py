"""Where a master is, and the token that it asks for."""

from dataclasses import dataclass

import httpx

from mlbench.errors import MLBenchError

_HINT = "is the stack running? `mlbench up` starts it"


@dataclass(frozen=True)
class Address:
    """How to reach a master."""

    url: httpx.URL
    """Its root, without user and token, so that it can be shown."""
    token: str | None
    hint: str = _HINT
    """What to do where it does not answer."""


def parse_address(text: str) -> Address:
    """Return the address that a text names.

    Args:
        text: ``host:port/path``, as MLBench's users write it, or a whole URL; both may carry the
            token as their password: ``user:TOKEN@host:port``.

    Raises:
        MLBenchError: it is no address.
    """
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise MLBenchError(f"url: it must be host:port or http(s)://host:port ({error})") from None
    if not url.host or url.scheme not in {"http", "https"}:
        raise MLBenchError("url: it must be host:port or http(s)://host:port")
    return Address(url.copy_with(userinfo=b"", query=None, fragment=None), url.password or None)
