"""The connection to the master: requests and their replies, retries, and the clock offset."""

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

# Responses after which a request is not repeated.
_REFUSED = {http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT}
_NEVER_JOINS = _REFUSED | {http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.UNAUTHORIZED}
_NEVER_TAKES = _NEVER_JOINS | {http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE}


class MasterClientError(Exception):
    """The master did not respond, or failed. A later attempt may succeed."""


class RequestRefusedError(Exception):
    """The master refuses this request permanently: it is malformed, or for another pod."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the response; 0 if unknown."""


@dataclass(frozen=True)
class Offset:
    """The lead of this machine's clock over the master's, with its uncertainty."""

    seconds: float
    uncertainty_seconds: float


class Clock:
    """Estimates the offset of this machine's clock from the last polls, as NTP does (RFC 5905)."""

    def __init__(self) -> None:
        self._last: deque[Offset] = deque(maxlen=8)  # clocks drift: older offsets are outdated

    def note(self, sent_at: float, received_at: float, master_time: float) -> None:
        """Note a round trip in which the master read its clock. All times are Unix seconds."""
        middle = (sent_at + received_at) / 2
        self._last.append(Offset(middle - master_time, abs(received_at - sent_at) / 2))

    @property
    def offset(self) -> Offset | None:
        """The offset of the shortest recent round trip; None before the first poll."""
        return min(self._last, key=lambda offset: offset.uncertainty_seconds, default=None)


@dataclass(frozen=True)
class PollResponse:
    """The master's response to a poll."""

    do: str
    next_poll_seconds: float
    assignment: Mapping[str, Any] | None
    busy: bool = False
    """Whether a run is active, on this agent or another one."""
    diagnosis: int | None = None
    """Id of the diagnosis that requests evidence of the rank; None if none does."""
    native_rank: int | None = None
    """The rank for which the diagnosis also requests C frames; None for no rank."""
    profile: tuple[int, int] | None = None
    """Id of the requested profile of the rank, and its seconds; None if none is requested."""
    faults: Sequence[Mapping[str, Any]] = ()
    """The faults that are due soon: ``id``, ``fault``, and ``at`` by the master's clock."""


@dataclass(frozen=True)
class Shipped:
    """The master's response to a chunk of a stream."""

    offset: int
    """Offset of the next chunk. All bytes before it were received or skipped."""
    next_ship_seconds: float


@dataclass(frozen=True)
class JoinResponse:
    """The master's response to an external rank that joins its run."""

    run_id: int
    attempt: int
    pod: str
    """Name with which the rank polls."""
    token: str
    """Token of this rank, which replaces the token to join."""


class MasterClient:
    """A connection to the master, for one thread at a time.

    Requests raise a MasterClientError without a usable response, and a RequestRefusedError if the
    master refuses.
    """

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the master's URL must begin with http:// or https:// (not {url!r})")
        client = http.client
        kind = client.HTTPSConnection if parts.scheme == "https" else client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=10.0)
        self.clock = Clock()
        self._path = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def poll(self, pod: str, report: Mapping[str, object]) -> PollResponse:
        """Report this pod's state, and return the master's reply."""
        sent_at = time.time()

        def parse(answer: Any) -> PollResponse:
            self.clock.note(sent_at, time.time(), float(answer["time"]))
            profile = answer.get("profile")
            return PollResponse(
                answer["do"],
                float(answer["next_poll_seconds"]),
                answer["assignment"],
                busy=bool(answer.get("busy")),
                diagnosis=answer.get("diagnosis"),
                native_rank=answer.get("native_rank"),
                profile=(profile["id"], profile["seconds"]) if profile else None,
                faults=answer.get("faults", ()),
            )

        path = f"/api/workers/{quote(pod)}/poll"
        return self._request("POST", path, json.dumps(report).encode(), parse)

    def join(self, order: Mapping[str, object]) -> JoinResponse:
        """Join the run of an external job; its first rank creates the run."""

        def parse(answer: Any) -> JoinResponse:
            run_id, attempt = int(answer["run_id"]), int(answer["attempt"])
            return JoinResponse(run_id, attempt, str(answer["pod"]), str(answer["token"]))

        body = json.dumps(order).encode()
        return self._request("POST", "/api/join", body, parse, _NEVER_JOINS)

    def ship(self, path: str, offset: int, data: bytes) -> Shipped:
        """Send a chunk of a stream."""
        return self._request(
            "PUT",
            f"{path}&offset={offset}",
            data,
            lambda answer: Shipped(int(answer["offset"]), float(answer["next_ship_seconds"])),
        )

    def give(self, path: str, body: bytes) -> None:
        """Send evidence, a profile or the report of a fault."""
        self._request("PUT", path, body, lambda answer: None, _NEVER_TAKES)

    def close(self) -> None:
        self._connection.close()

    def _request(
        self,
        method: str,
        path: str,
        body: bytes,
        parse: Callable[[Any], T],
        refused: Set[int] = _REFUSED,
    ) -> T:
        # The master may have closed an open connection while it was idle: that is tried again.
        was_open = self._connection.sock is not None
        try:
            self._connection.request(method, self._path + path, body, self._headers)
            response = self._connection.getresponse()
            text = response.read(4 << 20).decode(errors="replace")
            if not response.isclosed():
                raise http.client.HTTPException("the answer is too long")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if not was_open:
                raise MasterClientError(
                    f"{method} {path}: {error or type(error).__name__}"
                ) from error
            return self._request(method, path, body, parse, refused)
        status = response.status
        if status in refused:
            raise RequestRefusedError(f"{method} {path}: {status} {_message(text)}", status)
        if status not in {http.HTTPStatus.OK, http.HTTPStatus.NO_CONTENT}:
            raise MasterClientError(f"{method} {path}: {status} {_message(text)}")
        try:
            return parse(json.loads(text or "null"))
        except (KeyError, TypeError, ValueError) as error:
            raise MasterClientError(f"{method} {path}: the answer is malformed: {text}") from error


def _message(text: str) -> str:
    """Return the message in a response of the master, or else the whole response."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, TypeError, KeyError):
        return text


def send_patiently(connect: Callable[[], MasterClient], path: str, body: bytes) -> None:
    """Send a body over a new link; retry for a minute unless it is refused.

    Raises:
        MasterClientError: the master did not respond within the minute.
    """
    until = time.monotonic() + 60.0
    client, backoff = connect(), Backoff()
    while True:
        try:
            client.give(path, body)
            break
        except MasterClientError as error:
            if time.monotonic() > until:
                raise
            log.warning("cannot send it, trying again: %s", error)
            time.sleep(backoff.seconds())
        except RequestRefusedError as error:
            log.warning("the master does not want it: %s", error)
            break
    client.close()
