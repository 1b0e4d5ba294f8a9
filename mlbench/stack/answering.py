"""Whether a part of the stack answers."""

import urllib.request
from http.client import HTTPException

from mlbench.login import Login

_OK = 200

# Whatever $http_proxy says: this machine's own addresses mean nothing to a proxy.
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, timeout_seconds: float = 5.0, login: Login | None = None) -> bool:
    """Return whether a GET of an address of this machine is answered with 200."""
    headers = {"Authorization": login.header} if login else {}
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - ours, by http
        with _DIRECTLY.open(request, timeout=timeout_seconds) as response:
            return bool(response.status == _OK)
    except (OSError, HTTPException):
        return False
