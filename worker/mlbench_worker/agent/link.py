"""The connection to the master: its two calls, how long to wait after a failure, the clocks."""

import http.client
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from mlbench.local.backoff import Backoff

T = TypeVar("T")

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
# Later, nobody waits for what was asked of an agent.
_PATIENCE_SECONDS = 60.0
# Clocks drift, so older round trips say nothing.
_LAST_OFFSETS = 8
_REFUSED = {http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT}
_NEVER_JOINS = _REFUSED | {http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.UNAUTHORIZED}
_NEVER_TAKES = _NEVER_JOINS | {http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
_DONE = {http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT}
_LONGEST_ANSWER_BYTES = 4 << 20


class LinkError(Exception):
    """The master did not answer, or could not; a later try may succeed."""


class RefusedError(Exception):
    """The master refuses this request for good: it is wrong, or not this pod's."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status of the response; 0 if it is not known."""


@dataclass(frozen=True)
class Offset:
    """By how much this machine's clock is ahead of the master's, and how sure that is."""

    seconds: float
    uncertainty_seconds: float


class Clock:
    """Estimates the offset of this machine's clock by the last polls, as NTP does (RFC 5905)."""

    def __init__(self) -> None:
        self._last: deque[Offset] = deque(maxlen=_LAST_OFFSETS)

    def note(self, sent_at: float, received_at: float, master_time: float) -> None:
        """Note a round trip in which the master read its clock: all three are Unix seconds."""
        middle = (sent_at + received_at) / 2
        self._last.append(Offset(middle - master_time, abs(received_at - sent_at) / 2))

    @property
    def offset(self) -> Offset | None:
        """The last offset of the shortest round trip; None before the first poll."""
        return min(self._last, key=lambda one: one.uncertainty_seconds, default=None)


@dataclass(frozen=True)
class Reply:
    """The master's answer to a poll."""

    do: str
    next_poll_seconds: float
    assignment: Mapping[str, Any] | None
    busy: bool = False
    """Whether a run is active, of this agent or of another one."""
    autopsy: int | None = None
    """Which autopsy wants evidence of the rank; None if none does."""
    native_rank: int | None = None
    """Of which rank that wants the frames of C too; None if of none."""
    profile: tuple[int, int] | None = None
    """Which profile of the rank is wanted, and its seconds; None if none is."""
    faults: Sequence[Mapping[str, Any]] = ()
    """The failures that are soon due: ``id``, ``fault``, and ``at`` by the master's clock."""


@dataclass(frozen=True)
class Shipped:
    """The master's answer to a piece of a stream."""

    offset: int
    """Where the next piece begins: before it, all is held or left out."""
    next_ship_seconds: float


@dataclass(frozen=True)
class Joined:
    """The master's answer to a rank of a job that others started."""

    run_id: int
    attempt: int
    pod: str
    """By this name it polls."""
    token: str
    """With this token, instead of the one that it joined with."""


class Link:
    """A connection to the master. One thread at a time may use it.

    A call raises a LinkError if there is no usable answer, a RefusedError if the master refuses it.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the master's URL must begin with http:// or https:// (not {url!r})")
        client = http.client
        kind = client.HTTPSConnection if parts.scheme == "https" else client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
        self.clock = Clock()
        self._path = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def poll(self, pod: str, report: Mapping[str, object]) -> Reply:
        """Report this pod's state, and return the master's answer."""
        sent_at = time.time()

        def parse(answer: Any) -> Reply:
            self.clock.note(sent_at, time.time(), float(answer["time"]))
            wanted = answer.get("profile")
            return Reply(
                answer["do"],
                float(answer["next_poll_seconds"]),
                answer["assignment"],
                busy=bool(answer.get("busy")),
                autopsy=answer.get("autopsy"),
                native_rank=answer.get("native_rank"),
                profile=(wanted["id"], wanted["seconds"]) if wanted else None,
                faults=answer.get("faults", ()),
            )

        path = f"/api/workers/{quote(pod)}/poll"
        return self._request("POST", path, json.dumps(report).encode(), parse)

    def join(self, order: Mapping[str, object]) -> Joined:
        """Join the run of a job; the first of its ranks orders it."""

        def parse(answer: Any) -> Joined:
            run_id, attempt = int(answer["run_id"]), int(answer["attempt"])
            return Joined(run_id, attempt, str(answer["pod"]), str(answer["token"]))

        body = json.dumps(order).encode()
        return self._request("POST", "/api/join", body, parse, _NEVER_JOINS)

    def ship(self, path: str, offset: int, data: bytes) -> Shipped:
        """Send a piece of a stream that begins at an offset."""
        return self._request(
            "PUT",
            f"{path}&offset={offset}",
            data,
            lambda answer: Shipped(int(answer["offset"]), float(answer["next_ship_seconds"])),
        )

    def give(self, path: str, body: bytes) -> None:
        """Send what the master has asked for: evidence, a profile, what became of a failure."""
        self._request("PUT", path, body, lambda answer: None, _NEVER_TAKES)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _request(
        self,
        method: str,
        path: str,
        body: bytes,
        parse: Callable[[Any], T],
        refused: Set[int] = _REFUSED,
    ) -> T:
        # A kept connection may have been closed by the other side while it was idle.
        kept = self._connection.sock is not None
        try:
            status, text = self._exchange(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            if not kept:
                raise LinkError(f"{method} {path}: {error or type(error).__name__}") from error
            return self._request(method, path, body, parse, refused)
        if status in refused:
            raise RefusedError(f"{method} {path}: {status} {_message(text)}", status)
        if status not in _DONE:
            raise LinkError(f"{method} {path}: {status} {_message(text)}")
        try:
            return parse(json.loads(text or "null"))
        except (KeyError, TypeError, ValueError) as error:
            raise LinkError(f"{method} {path}: the answer is malformed: {text}") from error

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        try:
            self._connection.request(method, self._path + path, body, self._headers)
            response = self._connection.getresponse()
            text = response.read(_LONGEST_ANSWER_BYTES).decode(errors="replace")
            if not response.isclosed():
                raise http.client.HTTPException("the answer is too long")
            return response.status, text
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise


def _message(text: str) -> str:
    """Return the message of a master's answer, or else the answer as it is."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, TypeError, KeyError):
        return text


def send_patiently(connect: Callable[[], Link], path: str, body: bytes) -> None:
    """Give something by a link of its own: again and again for a minute, unless it is refused.

    Raises:
        LinkError: the master did not answer by then.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    link, backoff = connect(), Backoff()
    while True:
        try:
            link.give(path, body)
            break
        except LinkError as error:
            if time.monotonic() > until:
                raise
            log.warning("cannot send it, trying again: %s", error)
            time.sleep(backoff.seconds())
        except RefusedError as error:
            log.warning("the master does not want it: %s", error)
            break
    link.close()
