"""Requests as futures: sent by threads of their own, answers decoded to what they mean."""

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from mlbench.client.answers import Answer, Value
from mlbench.client.transport import Params, Transport
from mlbench.errors import ApiError


class Asker:
    """Sends requests over a transport, some at a time."""

    def __init__(self, transport: Transport, max_workers: int) -> None:
        self._transport = transport
        self._executor = ThreadPoolExecutor(max_workers, thread_name_prefix="mlbench-client")

    def close(self, *, cancel: bool = False) -> None:
        """Wait for what is being sent; what still waits for its turn is sent too, or cancelled."""
        self._executor.shutdown(cancel_futures=cancel)

    def ask(
        self,
        method: str,
        path: str,
        decode: Callable[[Any], Value],
        *,
        params: Params | None = None,
        body: object = None,
        repeatable: bool = True,
    ) -> Future[Answer[Value]]:
        """Ask for JSON, and return a future of its meaning."""
        return self.ask_bytes(
            method,
            path,
            lambda content: decode(json.loads(content)),
            params=params,
            body=body,
            repeatable=repeatable,
        )

    def ask_bytes(
        self,
        method: str,
        path: str,
        decode: Callable[[bytes], Value],
        *,
        params: Params | None = None,
        body: object = None,
        repeatable: bool = True,
    ) -> Future[Answer[Value]]:
        """Ask for any content, and return a future of its meaning.

        ``repeatable`` says that the request may be carried out twice without harm.

        Raises:
            TypeError, ValueError: the body holds what JSON cannot.
        """
        # Written down now: its caller may change what it holds before its turn comes.
        text = None if body is None else json.dumps(body, allow_nan=False)

        def exchange() -> Answer[Value]:
            response = self._transport.request(
                method, path, params=params, body=text, repeatable=repeatable
            )
            try:
                value = decode(response.content)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                raise ApiError(
                    response.status_code,
                    f"{response.url} does not answer as a master does "
                    f"({type(error).__name__}: {error}): is it one, and of this version?",
                ) from error
            return Answer(value, response.status_code, response.content)

        return self._executor.submit(exchange)


def path_part(name: int | str) -> str:
    """Return a run's id or a pod's name as a part of a path."""
    return quote(str(name), safe="")
