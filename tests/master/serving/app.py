"""A WSGI app for tests of gunicorn: it echoes requests, or sends large or broken responses."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LARGE = bytes(range(256)) * (32 << 10)


def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Return path and body of the request, unless the path is one of the following.

    ``/large``: 8 MiB. ``/pieces``: 8 MiB in pieces. ``/breaks``: fails in the middle of the
    response. ``/fails``: raises an error. ``/late``: takes half a second.
    """
    path = environ["PATH_INFO"]
    if path == "/fails":
        raise RuntimeError("of a defect")
    if path == "/late":
        time.sleep(0.5)
    if path == "/breaks":
        start("200 OK", [])
        return _break_off()
    if path == "/pieces":
        start("200 OK", [])
        return (LARGE[i : i + (64 << 10)] for i in range(0, len(LARGE), 64 << 10))
    asked = path.encode() + b" " + environ["wsgi.input"].read()
    answer = LARGE if path == "/large" else asked
    start("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


def _break_off() -> Iterator[bytes]:
    yield b"the first half"
    raise ConnectionError("of what the second half comes from")
