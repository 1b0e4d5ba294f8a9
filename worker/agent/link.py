"""The link to the master: one connection, kept open, and the agent's two calls over it."""

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from worker.agent.clock import Offset, offset_by

_TIMEOUT_SECONDS = 10.0
_REFUSED = {http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT}


class LinkError(Exception):
    """The master did not answer, or could not: try again later."""


class RefusedError(Exception):
    """The master says that this request is wrong, or not this pod's, and always will be."""


@dataclass(frozen=True)
class Reply:
    """What the master says should be."""

    do: str
    next_poll_seconds: float
    assignment: Mapping[str, Any] | None
    offset: Offset
    """Of this machine's clock, as this round trip tells it."""


class Link:
    """A connection to the master. One thread at a time may use it."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the master's URL must begin with http:// or https:// (not {url!r})")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
        self._path = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def poll(self, pod: str, report: Mapping[str, object]) -> Reply:
        """Say what is; return what should be.

        Raises:
            LinkError: no usable answer.
            RefusedError: the master refuses the report.
        """
        path = f"/api/workers/{quote(pod)}/poll"
        sent_at = time.time()
        answer = self._request("POST", path, json.dumps(report).encode())
        received_at = time.time()
        try:
            return Reply(
                answer["do"],
                float(answer["next_poll_seconds"]),
                answer["assignment"],
                offset_by(sent_at, received_at, float(answer["time"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise LinkError(f"the master's answer is not understood: {answer}") from error

    def ship(self, path: str, offset: int, data: bytes) -> int:
        """Send a piece of a stream that begins at an offset; return the offset the master has.

        Raises:
            LinkError: no usable answer.
            RefusedError: the stream is closed.
        """
        answer = self._request("PUT", f"{path}&offset={offset}", data)
        try:
            return int(answer["offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise LinkError(f"the master's answer is not understood: {answer}") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _request(self, method: str, path: str, body: bytes) -> Any:
        # A kept connection may have been closed by the other side while it was idle.
        kept = self._connection.sock is not None
        try:
            status, text = self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            if not kept:
                raise LinkError(f"{method} {path}: {error or type(error).__name__}") from error
            return self._request(method, path, body)
        if status in _REFUSED:
            raise RefusedError(f"{method} {path}: {status} {text}")
        if status != http.HTTPStatus.OK:
            raise LinkError(f"{method} {path}: {status} {text}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise LinkError(f"{method} {path}: the answer is no JSON") from error

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        try:
            self._connection.request(method, self._path + path, body, self._headers)
            response = self._connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
