"""Canary: every other second, the master sends itself a request as agents do.

The request passes the listener, the loop, a thread of the agents' bulkhead and a write to the
database. The silence of an agent counts only while these requests succeed.
"""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from mlbench.contract.clock import steady_seconds
from mlbench_master.http.access import is_token
from mlbench_master.runs.reachability import EVERY_SECONDS, LATE_SECONDS

log = logging.getLogger(__name__)

_PATH = "/heartbeat"
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def hear_itself(
    app: Application, listener: socket.socket, hear: Callable[[float], None]
) -> Application:
    """Send heartbeats to a listener until the process ends, and return an app that handles them.

    ``hear`` is called for each received heartbeat, with its time of sending. Other requests are
    passed to ``app``.
    """
    secret = secrets.token_urlsafe()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        token = environ.get("HTTP_AUTHORIZATION", "")
        if environ["PATH_INFO"] != _PATH or not is_token(token, secret):
            return app(environ, start)
        hear(float(environ["HTTP_X_SENT_AT"]))
        start("204 No Content", [])
        return []

    sender = threading.Thread(target=_send, args=(listener, secret), name="canary", daemon=True)
    sender.start()
    return answer


def _send(listener: socket.socket, secret: str) -> NoReturn:
    host, port = listener.getsockname()[:2]
    host = _WILDCARDS.get(host, host)
    is_reachable = True
    while True:
        began = time.monotonic()
        request = (
            f"POST {_PATH} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n"
            f"Authorization: {secret}\r\nX-Sent-At: {steady_seconds()!r}\r\n\r\n"
        )
        try:
            # Without http.client, which takes as long as the whole request.
            with socket.create_connection((host, port), timeout=LATE_SECONDS) as connection:
                connection.sendall(request.encode())
                status = connection.recv(64).partition(b"\r\n")[0]
            if status.split()[1:2] != [b"204"]:
                raise OSError(f"the response is {status.decode(errors='replace')!r}")
            is_reachable = True
        except OSError as error:
            if is_reachable:
                log.warning("the master does not hear itself, nor its agents: %s", error)
            is_reachable = False
        time.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
