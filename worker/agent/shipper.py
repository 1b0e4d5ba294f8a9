"""A thread that sends the three streams of an attempt to the master, by offset."""

import logging
import threading
from dataclasses import dataclass

from mlbench.names import STREAMS, StreamName
from worker.agent.attempt import Attempt
from worker.agent.link import Backoff, Link, LinkError, RefusedError

log = logging.getLogger(__name__)

_CHUNK_BYTES = 512 << 10
_IDLE_SECONDS = 0.1


@dataclass
class _Position:
    path: str
    offset: int = 0


class Shipper(threading.Thread):
    """Sends the streams as they grow, until the process has ended and all is sent.

    The file is the queue: while the master is away, it grows.
    """

    def __init__(self, attempt: Attempt, link: Link) -> None:
        super().__init__(name="shipper", daemon=True)
        a = attempt.assignment
        base = f"/api/runs/{a.run_id}/ranks/{a.rank}"
        self._attempt = attempt
        self._link = link
        self._positions: dict[StreamName, _Position] = {
            stream: _Position(f"{base}/{stream}?attempt={a.attempt}") for stream in STREAMS
        }
        self._quit = threading.Event()

    def run(self) -> None:
        """Ship until everything is shipped, the master refuses the rest, or the agent ends."""
        backoff = Backoff()
        patience = 0.0
        while not self._quit.wait(patience):
            # Before reading: what is read after the end is all there will ever be.
            ended = self._attempt.ended.is_set()
            try:
                moved = [self._ship(stream, ended) for stream in STREAMS]
            except (LinkError, OSError) as error:
                patience = backoff.seconds()
                log.warning("cannot ship, trying again in %.1f s: %s", patience, error)
                continue
            except RefusedError as error:
                log.warning("the master takes no more of this attempt: %s", error)
                return
            backoff.reset()
            if ended and not any(moved):
                return
            patience = 0.0 if any(moved) else _IDLE_SECONDS

    def quit(self) -> None:
        """End soon, without shipping the rest."""
        self._quit.set()

    def _ship(self, stream: StreamName, ended: bool) -> bool:
        """Send the next piece of a stream; return whether the master's offset moved."""
        position = self._positions[stream]
        data = self._attempt.read(stream, position.offset, _CHUNK_BYTES)
        written = self._attempt.size(stream)
        if stream == "metrics" and not ended and len(data) < _CHUNK_BYTES:
            data = data[: data.rfind(b"\n") + 1]
        if not data:
            return False
        before = position.offset
        # The master may skip a part of a long log: then its offset lies behind that part.
        path = f"{position.path}&written={written}"
        position.offset = self._link.ship(path, before, data)
        return position.offset != before
