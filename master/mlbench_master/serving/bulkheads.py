"""Bulkheads: each kind of request has threads of its own, so that none waits for another.

The loop chooses a bulkhead by the head of a request, and from the head it knows how much of a body
to wait for. Gunicorn parses and judges the request later: what looks odd here goes to it as it is.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, unique
from queue import SimpleQueue
from typing import Generic, NoReturn, TypeVar

_Work = TypeVar("_Work")

# Gunicorn refuses longer ones.
_LONGEST_HEAD = 64 << 10
# Agents ship chunks of up to 4 MiB.
_LONGEST_BODY = 4 << 20


@unique
class Bulkhead(Enum):
    """A kind of request, with its number of threads and how many requests may wait for them."""

    POLLS = ("polls", 16, 4096)
    """Agents' polls, joining ranks, and the master's own heartbeat."""
    STREAMS = ("streams", 8, 4096)
    """Agents' streams."""
    PROBES = ("probes", 2, 64)
    """Probes' and Prometheus's requests, which need no token."""
    OTHERS = ("others", 12, 512)
    """Users' requests."""
    SLOW = ("slow", 4, 64)
    """Requests whose body is read as it comes: too large to wait for, or of unknown length."""

    def __init__(self, title: str, threads: int, most_waiting: int) -> None:
        self.title = title
        self.threads = threads
        self.most_waiting = most_waiting


@dataclass(frozen=True)
class Head:
    """How to serve a request, by its head."""

    bulkhead: Bulkhead
    whole: int
    """The bytes of head and body to wait for before a thread takes the request."""


_END = rb"/?(?:\?[^ ]*)? HTTP/1\.[01]\r\n"
_ROUTES = [
    (Bulkhead.POLLS, re.compile(rb"POST /(?:api/workers/[^/? ]+/poll|api/join|heartbeat)" + _END)),
    (Bulkhead.STREAMS, re.compile(rb"PUT /api/runs/[^/? ]+/ranks/[^/? ]+/[^/? ]+" + _END)),
    (Bulkhead.PROBES, re.compile(rb"(?:GET|HEAD) /(?:healthz|readyz|metrics)" + _END)),
]
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_ODD = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade)[ \t]*:", re.IGNORECASE)


def find_head(arrived: bytes | bytearray) -> Head | None:
    """Return the head that a request begins with; None while it is incomplete."""
    end = arrived.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if end < 0:
        # With another line end in it, it never will be complete.
        never = len(arrived) >= _LONGEST_HEAD or re.search(rb"(?<!\r)\n", arrived)
        return Head(Bulkhead.SLOW, 0) if never else None
    head = bytes(arrived[: end + 2])
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or _ODD.search(head):
        return Head(Bulkhead.SLOW, 0)
    length = int(lengths[0]) if lengths else 0
    if length > _LONGEST_BODY:
        return Head(Bulkhead.SLOW, 0)
    bulkhead = next((bulkhead for bulkhead, route in _ROUTES if route.match(head)), Bulkhead.OTHERS)
    return Head(bulkhead, end + 4 + length)


class Bulkheads(Generic[_Work]):
    """The threads of all bulkheads, each of which does one thing with what it is given."""

    def __init__(self, do: Callable[[_Work, Bulkhead], None]) -> None:
        self._queues: dict[Bulkhead, SimpleQueue[_Work]] = {
            bulkhead: SimpleQueue() for bulkhead in Bulkhead
        }
        self._given: Counter[Bulkhead] = Counter()
        self._do = do
        for bulkhead in Bulkhead:
            for number in range(bulkhead.threads):
                name = f"{bulkhead.title}_{number}"
                threading.Thread(target=self._run, args=[bulkhead], name=name, daemon=True).start()

    def is_full(self, bulkhead: Bulkhead) -> bool:
        """Check if no more work may wait for the bulkhead's threads."""
        return self._given[bulkhead] >= bulkhead.threads + bulkhead.most_waiting

    def has_waiting(self, bulkhead: Bulkhead) -> bool:
        """Check if work waits for the bulkhead's threads."""
        return not self._queues[bulkhead].empty()

    def submit(self, bulkhead: Bulkhead, work: _Work) -> None:
        """Give work to a thread of the bulkhead, in order; a single thread calls this."""
        self._given[bulkhead] += 1
        self._queues[bulkhead].put(work)

    def note_done(self, bulkhead: Bulkhead) -> None:
        """Note that one submission to the bulkhead is done; the same thread calls this."""
        self._given[bulkhead] -= 1

    def _run(self, bulkhead: Bulkhead) -> NoReturn:
        while True:
            self._do(self._queues[bulkhead].get(), bulkhead)
