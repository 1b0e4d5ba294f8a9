"""Requests to one master: connections kept open, repeated only where that is safe."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import httpx

from mlbench.client.address import Address
from mlbench.errors import ApiError, NoAnswerError

Param = str | int | Sequence[str]
Params = Mapping[str, Param]

# Before the second, third and fourth try, where the master does not say how long to wait.
_PAUSES_SECONDS = (0.2, 0.4, 0.8)
# After which no try begins any more.
_PATIENCE_SECONDS = 10.0
_CONNECT_SECONDS = 5.0


class Transport:
    """Sends requests to one master. Threads may share it."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        token = address.token
        self._http = httpx.Client(
            base_url=address.url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=httpx.Timeout(timeout_seconds, connect=_CONNECT_SECONDS),
            # Whatever $http_proxy says: this machine's own address means nothing to a proxy.
            mounts={"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None},
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: str | None = None,
        repeatable: bool,
    ) -> httpx.Response:
        """Send a request, whose body is JSON, and return the answer to it.

        ``repeatable`` says that it may be sent again where it is not known whether it was carried
        out. A request that could not be sent at all is always tried again.

        Raises:
            ApiError: the master refuses.
            NoAnswerError: there is no master, or it breaks off.
        """
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = self._http.build_request(
            method, path, params=params, content=body, headers=headers
        )
        return self._checked(self._send(request, repeatable=repeatable, stream=False))

    @contextmanager
    def stream(self, path: str, params: Params) -> Iterator[httpx.Response]:
        """Give the answer to a GET while its body is still on its way.

        Raises:
            ApiError: the master refuses.
            NoAnswerError: there is no master, or it breaks off, also in the block.
        """
        request = self._http.build_request("GET", path, params=params)
        response = self._send(request, repeatable=True, stream=True)
        try:
            if not response.is_success:
                response.read()
            yield self._checked(response)
        except httpx.RequestError as error:
            raise self._no_answer(error) from error
        finally:
            response.close()

    def download(
        self,
        path: str,
        params: Params,
        file: BinaryIO,
        on_progress: Callable[[int, int | None], None],
    ) -> int:
        """Write the answer to a GET to a file piece by piece, and return how many bytes it has.

        ``on_progress`` is told after each piece how many bytes came so far, and how many there will
        be, if the master says.

        Raises:
            ApiError: the master refuses.
            NoAnswerError: there is no master, or it breaks off.
        """
        written = 0
        with self.stream(path, params) as response:
            length = response.headers.get("Content-Length")
            for piece in response.iter_bytes():
                written += file.write(piece)
                on_progress(response.num_bytes_downloaded, int(length) if length else None)
        return written

    def _send(self, request: httpx.Request, *, repeatable: bool, stream: bool) -> httpx.Response:
        began = time.monotonic()
        tries = 1
        while True:
            outcome = self._try(request, stream=stream)
            spent = time.monotonic() - began
            pause = pause_before_retry(outcome, tries, spent, repeatable=repeatable)
            if pause is None:
                break
            if isinstance(outcome, httpx.Response):
                outcome.close()
            time.sleep(pause)
            tries += 1
        if isinstance(outcome, httpx.RequestError):
            raise self._no_answer(outcome) from outcome
        return outcome

    def _try(self, request: httpx.Request, *, stream: bool) -> httpx.Response | httpx.RequestError:
        try:
            return self._http.send(request, stream=stream)
        except httpx.RequestError as error:
            return error

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if not response.is_success:
            raise ApiError(response.status_code, _message(response))
        return response

    def _no_answer(self, error: httpx.RequestError) -> NoAnswerError:
        return NoAnswerError(
            f"the master at {str(self._address.url).rstrip('/')} does not answer "
            f"({error or type(error).__name__}): {self._address.hint}"
        )


def pause_before_retry(
    outcome: httpx.Response | httpx.RequestError,
    tries: int,
    spent_seconds: float,
    *,
    repeatable: bool,
) -> float | None:
    """Return the seconds to wait before a request is sent again; None: it must not be.

    Again after a connection that was refused or broke, or the answer "503, Retry-After"; not after
    a silence as long as the timeout, since a master that is so busy would only get more to do.
    """
    nothing_was_sent = isinstance(outcome, httpx.ConnectError)
    if tries > len(_PAUSES_SECONDS) or not (repeatable or nothing_was_sent):
        return None
    if isinstance(outcome, httpx.Response):
        pause = _retry_after(outcome)
    elif isinstance(outcome, (httpx.NetworkError, httpx.RemoteProtocolError)):
        pause = _PAUSES_SECONDS[tries - 1]
    else:
        return None
    return pause if pause is not None and spent_seconds + pause <= _PATIENCE_SECONDS else None


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    is_seconds = text.isascii() and text.isdecimal()
    wanted = response.status_code == httpx.codes.SERVICE_UNAVAILABLE and is_seconds
    return float(text) if wanted else None


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"{response.status_code} {response.reason_phrase}"
