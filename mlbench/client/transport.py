"""HTTP to one master: futures, kept connections, and retries only where they are safe."""

import io
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Generic, TypeVar

import httpx

from mlbench.contract.address import Address
from mlbench.contract.errors import ApiError, NoResponseError
from mlbench.contract.people import USER_HEADER, encode_user, own_user

Value = TypeVar("Value")
Params = Mapping[str, str | int | Sequence[str]]
OnProgress = Callable[[int, int | None], None]
"""Called with the bytes received so far, and with all there will be, if the master says."""

# Pauses before the second, third and fourth attempt, unless the master sends a Retry-After.
_PAUSES_SECONDS = (0.2, 0.4, 0.8)
# No attempt begins later than this.
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Response(Generic[Value]):
    """The master's response to a request, which a client's future returns."""

    value: Value
    """The content as a typed value, e.g. a ``Run``, a list of pods, or the bytes of a file."""
    status_code: int
    """The HTTP status: 200, 201 or 204."""
    content: bytes = field(repr=False)
    """The body as it was received."""

    def json(self) -> Any:
        """Return the body, parsed as JSON; None if it is empty, for example after a deletion.

        Raises:
            ValueError: it is not JSON, e.g. a zip file.
        """
        return json.loads(self.content) if self.content else None


class HttpClient:
    """Sends requests to one master from a thread pool. Threads may share it."""

    def __init__(self, address: Address, timeout_seconds: float, max_workers: int) -> None:
        self._address = address
        self._executor = ThreadPoolExecutor(max_workers, thread_name_prefix="mlbench-client")
        token = address.token
        self._http = httpx.Client(
            base_url=address.url,
            headers={
                USER_HEADER: encode_user(own_user()),
                **({"Authorization": f"Bearer {token}"} if token else {}),
            },
            timeout=httpx.Timeout(timeout_seconds, connect=5.0),
            # Loading the certificates takes as long as all requests of a command.
            verify=address.url.startswith("https:"),
            # A proxy cannot reach this machine's own addresses, whatever $http_proxy says.
            mounts={"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None},
        )

    def close(self, *, cancel: bool = False) -> None:
        """Wait for the requests, or cancel those that are not sent yet; close the connections."""
        self._executor.shutdown(cancel_futures=cancel)
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        decode: Callable[[bytes], Value],
        *,
        params: Params | None = None,
        body: object = None,
        repeatable: bool = True,
    ) -> Future[Response[Value]]:
        """Send a request with a JSON body, and return a future of the decoded answer.

        ``repeatable`` requests may be sent again when it is not known whether they were carried
        out. A request that could not be sent at all is always sent again.

        The future raises ApiError if the master refuses, and NoResponseError if it does not answer.

        Raises:
            TypeError, ValueError: JSON cannot hold the body.
        """
        # Encoded now, because the caller may change the body before the request is sent.
        text = None if body is None else json.dumps(body, allow_nan=False)
        headers = {} if text is None else {"Content-Type": "application/json"}
        request = self._http.build_request(
            method, path, params=params, content=text, headers=headers
        )
        return self._executor.submit(
            lambda: _decoded(self._send(request, repeatable=repeatable, stream=False), decode)
        )

    def upload(
        self, path: str, decode: Callable[[bytes], Value], file: BinaryIO
    ) -> Response[Value]:
        """Send a file with POST, in this thread, once; errors are as in ``request``."""
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        # The answer comes once all of it is checked.
        request = self._http.build_request(
            "POST", path, content=file, headers=headers, timeout=600.0
        )
        return _decoded(self._send(request, repeatable=False, stream=False), decode)

    def download(
        self, path: str, params: Params, file: BinaryIO, on_progress: OnProgress | None
    ) -> int:
        """Write the answer to a GET to a file piece by piece; return its size in bytes.

        Errors are as in ``request``, also for an incomplete response.
        """
        written = 0
        request = self._http.build_request("GET", path, params=params)
        response = self._send(request, repeatable=True, stream=True)
        try:
            if not response.is_success:
                response.read()
            _raise_refusal(response)
            length = response.headers.get("Content-Length")
            for piece in response.iter_bytes():
                written += file.write(piece)
                if on_progress is not None:
                    on_progress(response.num_bytes_downloaded, int(length) if length else None)
        except httpx.RequestError as error:
            raise self._no_answer(error) from error
        finally:
            response.close()
        return written

    def _send(self, request: httpx.Request, *, repeatable: bool, stream: bool) -> httpx.Response:
        began = time.monotonic()
        for attempt in itertools.count(1):
            outcome: httpx.Response | httpx.RequestError
            try:
                outcome = self._http.send(request, stream=stream)
            except httpx.RequestError as error:
                outcome = error
            spent = time.monotonic() - began
            pause = pause_before_retry(outcome, attempt, spent, repeatable=repeatable)
            if pause is None:
                break
            if isinstance(outcome, httpx.Response):
                outcome.close()
            time.sleep(pause)
        if isinstance(outcome, httpx.RequestError):
            raise self._no_answer(outcome) from outcome
        return outcome

    def _no_answer(self, error: httpx.RequestError) -> NoResponseError:
        return NoResponseError(
            f"the master at {self._address.url} does not respond "
            f"({error or type(error).__name__}): {self._address.hint}"
        )


def pause_before_retry(
    outcome: httpx.Response | httpx.RequestError,
    attempts: int,
    spent_seconds: float,
    *,
    repeatable: bool,
) -> float | None:
    """Return the seconds to wait before a request is sent again, or None to give up.

    A request is sent again if the connection was refused or broke, or the response is 503 with
    Retry-After. After a timeout it is not, because that would add to the load of a busy master.
    """
    nothing_was_sent = isinstance(outcome, httpx.ConnectError)
    if attempts > len(_PAUSES_SECONDS) or not (repeatable or nothing_was_sent):
        return None
    if isinstance(outcome, httpx.Response):
        seconds = outcome.headers.get("Retry-After", "")
        is_delay = seconds.isascii() and seconds.isdecimal()
        is_unavailable = outcome.status_code == httpx.codes.SERVICE_UNAVAILABLE
        pause = float(seconds) if is_unavailable and is_delay else None
    elif isinstance(outcome, (httpx.NetworkError, httpx.RemoteProtocolError)):
        pause = _PAUSES_SECONDS[attempts - 1]
    else:
        return None
    return pause if pause is not None and spent_seconds + pause <= _PATIENCE_SECONDS else None


def _decoded(response: httpx.Response, decode: Callable[[bytes], Value]) -> Response[Value]:
    _raise_refusal(response)
    try:
        value = decode(response.content)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ApiError(
            response.status_code,
            f"{response.url}: not a valid response of a master "
            f"({type(error).__name__}: {error}). Is it a master of this version?",
        ) from error
    return Response(value, response.status_code, response.content)


def _raise_refusal(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = (
            f"{response.url.copy_with(query=None)} responds {response.status_code} "
            f"{response.reason_phrase}, unlike a master. Is it another server?"
        )
    raise ApiError(response.status_code, message)
