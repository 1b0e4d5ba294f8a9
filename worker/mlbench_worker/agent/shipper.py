"""A thread that sends the streams of an attempt to the master, by offset."""

import logging
import threading

from mlbench.contract.names import StreamName
from mlbench.local.backoff import Backoff
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.files import whole_lines
from mlbench_worker.agent.link import Link, LinkError, RefusedError

log = logging.getLogger(__name__)

_CHUNK_BYTES = 512 << 10
_IDLE_SECONDS = 0.1
# What comes gathers for so long, until the master says how long: a request for each line would
# disturb the training, and a thousand ranks the master.
_GATHER_SECONDS = 1.0
# A long log delays no values.
_IN_TURN: tuple[StreamName, ...] = ("metrics", "stdout", "stderr", "files")


class Shipper(threading.Thread):
    """Sends the streams as they grow, until the process has ended and all is sent.

    The file is the queue: while the master is away, it grows.
    """

    def __init__(self, attempt: Attempt, link: Link) -> None:
        super().__init__(name="shipper", daemon=True)
        self._attempt = attempt
        self._link = link
        self._offsets: dict[StreamName, int] = dict.fromkeys(_IN_TURN, 0)
        self._gather_seconds = _GATHER_SECONDS
        self._quit = threading.Event()
        self.has_shipped_all = False
        self.refusal = ""
        """Why the master takes no more; empty while it does."""

    @property
    def held(self) -> int:
        """The bytes that the master holds, or has left out."""
        return sum(self._offsets.values())

    def run(self) -> None:
        """Ship until everything is shipped, the master refuses the rest, or the agent ends."""
        backoff = Backoff()
        while not self._quit.is_set():
            # Before reading: what is read after the end is all there will ever be.
            ended = self._attempt.ended.is_set()
            try:
                moved = [self._ship(stream, ended) for stream in _IN_TURN]
            except (LinkError, OSError) as error:
                patience = backoff.seconds()
                log.warning("cannot ship, trying again in %.1f s: %s", patience, error)
                self._quit.wait(patience)
                continue
            except RefusedError as error:
                self.refusal = str(error)
                log.warning("the master takes no more of this attempt: %s", error)
                return
            backoff.reset()
            if ended and not any(moved):
                self.has_shipped_all = True
                return
            # Behind a whole chunk there is more; and at the end of the process, there is no rest.
            if max(moved) < _CHUNK_BYTES and not ended:
                hurry = self._attempt.hurry
                hurry.wait(self._gather_seconds if any(moved) else _IDLE_SECONDS)
                hurry.clear()

    def quit(self) -> None:
        """End soon, without shipping the rest."""
        self._quit.set()

    def _ship(self, stream: StreamName, ended: bool) -> int:
        """Send the next piece of a stream; return by how much the master's offset moved."""
        file, before = self._attempt.streams[stream], self._offsets[stream]
        data = file.read(before, _CHUNK_BYTES)
        written = file.size()
        if stream == "metrics" and not ended and len(data) < _CHUNK_BYTES:
            data = whole_lines(data)
        if not data:
            return 0
        a = self._attempt.assignment
        # The master may skip a part of a long log: then its offset lies behind that part.
        path = f"/api/runs/{a.run_id}/ranks/{a.rank}/{stream}?attempt={a.attempt}&written={written}"
        shipped = self._link.ship(path, before, data)
        self._offsets[stream] = shipped.offset
        self._gather_seconds = shipped.next_ship_seconds
        return self._offsets[stream] - before
