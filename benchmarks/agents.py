"""Agents of a measurement: a process that polls for a thousand, each on connections of its own."""

import json
import selectors
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

_HOST = "127.0.0.1"
# As the agent does.
_TIMEOUT_SECONDS = 10.0
_BACKOFF_SECONDS = 1.0


@dataclass(frozen=True)
class Polled:
    """How the agents were answered."""

    oldest: float
    """The longest that any agent went without an answer, in seconds."""
    median_ms: float
    """From a poll to its answer."""
    answers: int
    failures: int


class _Agent:
    """One agent, which polls when the master says so."""

    def __init__(self, port: int, pod: str, token: str, begin: float) -> None:
        body = json.dumps({"state": "idle", "ip": _HOST}).encode()
        lines = [
            f"POST /api/workers/{pod}/poll HTTP/1.1",
            f"Host: {_HOST}",
            f"Authorization: Bearer {token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        self._request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        self._port = port
        self._socket: socket.socket | None = None
        # The shipper of an agent has a connection of its own.
        self._shipper: socket.socket | None = None
        self._received = b""
        self.due = begin
        self.sent_at = 0.0
        self.answered_at = begin
        self.oldest = 0.0
        self.taken: list[float] = []
        self.failures = 0

    @property
    def is_asking(self) -> bool:
        return self.sent_at > 0

    def ask(self, selector: selectors.BaseSelector) -> None:
        try:
            if self._socket is None:
                self._socket = socket.create_connection((_HOST, self._port), _TIMEOUT_SECONDS)
                self._shipper = socket.create_connection((_HOST, self._port), _TIMEOUT_SECONDS)
                selector.register(self._socket, selectors.EVENT_READ, self)
            self._socket.sendall(self._request)
        except OSError:
            self.fail(selector)
        else:
            self.sent_at = time.monotonic()

    def fail(self, selector: selectors.BaseSelector) -> None:
        self.failures += self.is_asking
        if self._socket is not None:
            if self._socket in selector.get_map():
                selector.unregister(self._socket)
            self._socket.close()
        if self._shipper is not None:
            self._shipper.close()
        self._socket = self._shipper = None
        self._received = b""
        self.sent_at, self.due = 0.0, time.monotonic() + _BACKOFF_SECONDS

    def receive(self, selector: selectors.BaseSelector) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data or not self.is_asking:
            self.fail(selector)
            return
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not end or len(body) < length:
            return
        self._received = b""
        if not head.startswith(b"HTTP/1.1 200 "):
            self.fail(selector)
            return
        now = time.monotonic()
        self.oldest = max(self.oldest, now - self.answered_at)
        self.taken.append(now - self.sent_at)
        self.answered_at, self.sent_at = now, 0.0
        self.due = now + json.loads(body)["next_poll_seconds"]


def poll(port: int, tokens: Mapping[str, str], seconds: float) -> Polled:
    """Have the agents of these pods, each with its token, poll for so long."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_poll, port, tokens, seconds).result()


def _poll(port: int, tokens: Mapping[str, str], seconds: float) -> Polled:
    begin = time.monotonic()
    agents = [_Agent(port, pod, token, begin) for pod, token in tokens.items()]
    with selectors.DefaultSelector() as selector:
        while (now := time.monotonic()) < begin + seconds:
            for agent in agents:
                if agent.is_asking and now - agent.sent_at > _TIMEOUT_SECONDS:
                    agent.fail(selector)
                elif not agent.is_asking and now >= agent.due:
                    agent.ask(selector)
            for key, _ in selector.select(0.02) if selector.get_map() else ():
                key.data.receive(selector)
    return _sum_up(agents, time.monotonic())


def _sum_up(agents: Sequence[_Agent], now: float) -> Polled:
    taken = [seconds for agent in agents for seconds in agent.taken]
    return Polled(
        oldest=max(max(agent.oldest, now - agent.answered_at) for agent in agents),
        median_ms=statistics.median(taken) * 1000 if taken else float("inf"),
        answers=len(taken),
        failures=sum(agent.failures for agent in agents),
    )
