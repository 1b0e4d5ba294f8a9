"""The real Prometheus behind a server that lets writes fail in the ways that they do fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import cramjam
import httpx

from tests.support.places import decode
from tests.support.scripted import Asked, Reply, answering


@dataclass(frozen=True)
class Fault:
    """The effect of a fault on a write."""

    reply: Reply
    stores: bool = False
    """Whether Prometheus sees it, and only its answer is lost."""


def answers(status: int, text: str = "", **headers: str) -> Fault:
    """Answer for Prometheus, which never sees the request. ``_`` in a header's name is ``-``."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Fault(Reply(status, text.encode(), named))


CUT = Fault(Reply(None))
HANG = Fault(Reply(None, seconds=60))
NO_HTTP = Fault(Reply(None, b"\x00\xffSSH-2.0 hello\r\n\r\n"))
BREAK_OFF = Fault(Reply(500, b"half", missing_bytes=1000))
STORE_AND_CUT = Fault(Reply(None), stores=True)
STORE_AND_HANG = Fault(Reply(None, seconds=60), stores=True)
STORE_AND_FAIL = Fault(Reply(500, b"who knows"), stores=True)


@dataclass
class FaultyPrometheus:
    """Passes writes on, except the next ones that have a planned fault."""

    target: str
    url: str
    requests: list[Asked]
    faults: list[Fault | None] = field(default_factory=list)
    """Faults of the next writes, in order; None: no fault."""


@contextmanager
def faulty_prometheus(target: str) -> Iterator[FaultyPrometheus]:

    def answer(asked: Asked) -> Reply:
        fault = faulty.faults.pop(0) if faulty.faults else None
        if fault and not fault.stores:
            return fault.reply
        headers = {name: asked.headers[name] for name in ("Content-Encoding", "Content-Type")}
        stored = httpx.post(target + asked.path, content=asked.body, headers=headers)
        if not fault:
            return Reply(stored.status_code, stored.content)
        assert stored.is_success
        return fault.reply

    with answering(answer) as server:
        faulty = FaultyPrometheus(target, server.url, server.asked)
        yield faulty


def series_of(request: Asked) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """Return labels, and (milliseconds, value) in the order in which they were sent."""
    return decode(bytes(cramjam.snappy.decompress_raw(request.body)))
