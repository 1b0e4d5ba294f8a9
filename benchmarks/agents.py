"""Agents of a measurement: a process that polls for a thousand, each on connections of its own."""

import asyncio
import json
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context

from benchmarks.load import post_json

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


@dataclass
class _Agent:
    """One agent, which polls when the master says so."""

    port: int
    request: bytes
    answered_at: float = field(default_factory=time.monotonic)
    oldest: float = 0.0
    seconds: list[float] = field(default_factory=list)
    """From each poll to its answer."""
    failures: int = 0

    async def poll(self) -> None:
        """Poll for ever."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(_HOST, self.port)
                # The shipper of an agent has a connection of its own.
                _, shipper = await asyncio.open_connection(_HOST, self.port)
                with closing(writer), closing(shipper):
                    while True:
                        async with asyncio.timeout(_TIMEOUT_SECONDS):
                            pause = await self._ask(reader, writer)
                        await asyncio.sleep(pause)
            except (OSError, EOFError, ValueError):
                self.failures += 1
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
        """Poll once, and return after how many seconds to poll again."""
        sent_at = time.monotonic()
        writer.write(self.request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        if not head.startswith(b"http/1.1 200 "):
            raise ValueError(head)
        now = time.monotonic()
        self.oldest = max(self.oldest, now - self.answered_at)
        self.seconds.append(now - sent_at)
        self.answered_at = now
        return float(json.loads(body)["next_poll_seconds"])


def poll(port: int, tokens: Mapping[str, str], seconds: float) -> Polled:
    """Have the agents of these pods, each with its token, poll for so long."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_poll, port, tokens, seconds).result()


def _poll(port: int, tokens: Mapping[str, str], seconds: float) -> Polled:
    state = {"state": "idle", "ip": _HOST}
    agents = [
        _Agent(
            port,
            post_json(f"/api/workers/{pod}/poll", state, {"Authorization": f"Bearer {token}"}),
        )
        for pod, token in tokens.items()
    ]

    async def poll_all() -> None:
        tasks = [asyncio.create_task(agent.poll()) for agent in agents]
        await asyncio.wait(tasks, timeout=seconds)

    asyncio.run(poll_all())
    ended_at = time.monotonic()
    answers = [taken for agent in agents for taken in agent.seconds]
    return Polled(
        oldest=max(max(agent.oldest, ended_at - agent.answered_at) for agent in agents),
        median_ms=statistics.median(answers) * 1000 if answers else float("inf"),
        answers=len(answers),
        failures=sum(agent.failures for agent in agents),
    )
