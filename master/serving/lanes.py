"""Lanes: each kind of request has threads of its own, so that none waits for another kind."""

import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Lane(Enum):
    """A kind of request, with how many threads it has and how many requests may wait for them."""

    POLLS = (4, 4096)
    """What an agent says and is told, and the master's own heartbeat."""
    STREAMS = (4, 4096)
    """What agents ship."""
    PROBES = (2, 64)
    """What probes and Prometheus ask, without a token."""
    OTHERS = (12, 512)
    """What users ask."""
    SLOW = (4, 64)
    """Bodies that come while they are read: too large to wait for, or of unknown length."""

    def __init__(self, threads: int, most_waiting: int) -> None:
        self.threads = threads
        self.most_waiting = most_waiting


_END = rb"/?(?:\?[^ ]*)? HTTP/1\.[01]\r\n"
_ROUTES = [
    (Lane.POLLS, re.compile(rb"POST (?:/api/workers/[^/? ]+/poll|/heartbeat)" + _END)),
    (Lane.STREAMS, re.compile(rb"PUT /api/runs/[^/? ]+/ranks/[^/? ]+/[^/? ]+" + _END)),
    (Lane.PROBES, re.compile(rb"(?:GET|HEAD) /(?:healthz|readyz|metrics)" + _END)),
]


def choose(head: bytes) -> Lane:
    """Return the lane of a request, by its first line."""
    return next((lane for lane, route in _ROUTES if route.match(head)), Lane.OTHERS)


class Lanes:
    """The threads of all lanes. One thread alone may give them work."""

    def __init__(self) -> None:
        self._pools = {
            lane: ThreadPoolExecutor(lane.threads, thread_name_prefix=lane.name.lower())
            for lane in Lane
        }
        self._given: Counter[Lane] = Counter()

    def is_full(self, lane: Lane) -> bool:
        """Return whether no more requests may wait for the lane's threads."""
        return self._given[lane] >= lane.threads + lane.most_waiting

    def submit(
        self,
        lane: Lane,
        work: Callable[_Arguments, _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> "Future[_Result]":
        """Have a thread of the lane do something, after what was given to it before."""
        self._given[lane] += 1
        return self._pools[lane].submit(work, *args, **kwargs)

    def note_done(self, lane: Lane) -> None:
        """Note that something given to the lane is done."""
        self._given[lane] -= 1

    def shutdown(self, wait: bool = True) -> None:
        """Take no more work; drop what waits."""
        for pool in self._pools.values():
            pool.shutdown(wait=wait, cancel_futures=True)
