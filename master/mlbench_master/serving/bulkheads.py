"""Bulkheads: each kind of request has its own threads, so that no kind waits for another.

The loop chooses a bulkhead by the head of a request. The head also gives the length of the body to
wait for. Gunicorn parses and validates the request later, so unusual requests pass unchanged.
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

# Gunicorn refuses longer heads.
_MAX_HEAD_BYTES = 64 << 10
# Agents ship chunks of up to 4 MiB.
_MAX_BODY_BYTES = 4 << 20


@unique
class Bulkhead(Enum):
    """A kind of request, with its number of threads and how many requests may wait for them."""

    POLLS = ("polls", 16, 4096)
    """Polls of agents, joining ranks, and the heartbeat of the master itself."""
    STREAMS = ("streams", 8, 4096)
    """Streams of agents."""
    PROBES = ("probes", 2, 64)
    """Requests of probes and of Prometheus, which need no token."""
    OTHERS = ("others", 12, 512)
    """Requests of users."""
    SLOW = ("slow", 4, 64)
    """Requests whose body a thread reads: too large to wait for, or of unknown length."""

    def __init__(self, title: str, threads: int, most_waiting: int) -> None:
        self.title = title
        self.threads = threads
        self.most_waiting = most_waiting


@dataclass(frozen=True)
class Head:
    """Bulkhead and length of a request, from its head."""

    bulkhead: Bulkhead
    whole: int
    """Bytes of head and body that must arrive before a thread gets the request."""


_END = rb"/?(?:\?[^ ]*)? HTTP/1\.[01]\r\n"
_ROUTES = [
    (Bulkhead.POLLS, re.compile(rb"POST /(?:api/workers/[^/? ]+/poll|api/join|heartbeat)" + _END)),
    (Bulkhead.STREAMS, re.compile(rb"PUT /api/runs/[^/? ]+/ranks/[^/? ]+/[^/? ]+" + _END)),
    (Bulkhead.PROBES, re.compile(rb"(?:GET|HEAD) /(?:healthz|readyz|metrics)" + _END)),
]
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_ODD = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade)[ \t]*:", re.IGNORECASE)


def find_head(arrived: bytes | bytearray) -> Head | None:
    """Return the head of a request; None while it is incomplete."""
    end = arrived.find(b"\r\n\r\n", 0, _MAX_HEAD_BYTES)
    if end < 0:
        # A head with other line ends never becomes complete.
        is_invalid = len(arrived) >= _MAX_HEAD_BYTES or re.search(rb"(?<!\r)\n", arrived)
        return Head(Bulkhead.SLOW, 0) if is_invalid else None
    head = bytes(arrived[: end + 2])
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or _ODD.search(head):
        return Head(Bulkhead.SLOW, 0)
    length = int(lengths[0]) if lengths else 0
    if length > _MAX_BODY_BYTES:
        return Head(Bulkhead.SLOW, 0)
    bulkhead = next((bulkhead for bulkhead, route in _ROUTES if route.match(head)), Bulkhead.OTHERS)
    return Head(bulkhead, end + 4 + length)


class Bulkheads(Generic[_Work]):
    """Threads of all bulkheads, which call a function with each submitted item."""

    def __init__(self, do: Callable[[_Work, Bulkhead], None]) -> None:
        self._queues: dict[Bulkhead, SimpleQueue[_Work]] = {
            bulkhead: SimpleQueue() for bulkhead in Bulkhead
        }
        self._submitted: Counter[Bulkhead] = Counter()

        def work(bulkhead: Bulkhead) -> NoReturn:
            while True:
                do(self._queues[bulkhead].get(), bulkhead)

        for bulkhead in Bulkhead:
            for number in range(bulkhead.threads):
                name = f"{bulkhead.title}_{number}"
                threading.Thread(target=work, args=[bulkhead], name=name, daemon=True).start()

    def is_full(self, bulkhead: Bulkhead) -> bool:
        """Return whether the queue of the bulkhead is full."""
        return self._submitted[bulkhead] >= bulkhead.threads + bulkhead.most_waiting

    def has_waiting(self, bulkhead: Bulkhead) -> bool:
        """Return whether work waits for the bulkhead's threads."""
        return not self._queues[bulkhead].empty()

    def submit(self, bulkhead: Bulkhead, work: _Work) -> None:
        """Queue work for the bulkhead's threads. Only one thread may call this."""
        self._submitted[bulkhead] += 1
        self._queues[bulkhead].put(work)

    def note_done(self, bulkhead: Bulkhead) -> None:
        """Note that one submission to the bulkhead is done. Only the same thread may call this."""
        self._submitted[bulkhead] -= 1
