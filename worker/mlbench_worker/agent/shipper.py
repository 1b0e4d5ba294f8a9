"""A thread that sends the streams of an attempt to the master, by offset."""

import logging
import threading

from mlbench.contract.line_chunks import whole_lines
from mlbench.contract.names import StreamName
from mlbench.local.backoff import Backoff
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, MasterClientError, RequestRefusedError

log = logging.getLogger(__name__)

_CHUNK_BYTES = 512 << 10
_IN_TURN: tuple[StreamName, ...] = ("metrics", "stdout", "stderr", "files")
"""The streams in the order of their chunks: a long log does not delay values."""


class Shipper(threading.Thread):
    """Sends the streams as they grow, until the process has ended and everything is sent.

    The files are the queue: they grow while the master is not reachable.
    """

    def __init__(self, attempt: Attempt, client: MasterClient) -> None:
        super().__init__(name="shipper", daemon=True)
        self._attempt = attempt
        self._link = client
        self._offsets: dict[StreamName, int] = dict.fromkeys(_IN_TURN, 0)
        # Lines are collected for this time before a request. A request per line would disturb the
        # training, and a thousand ranks would overload the master, which sets the value later.
        self._gather_seconds = 1.0
        self._quit = threading.Event()
        self.has_shipped_all = False
        self.refusal = ""
        """The master's reason to refuse the rest; "" while it accepts data."""

    @property
    def held(self) -> int:
        """Number of bytes that the master has received or skipped."""
        return sum(self._offsets.values())

    def run(self) -> None:
        """Ship until everything is shipped, the master refuses the rest, or ``quit`` is called."""
        backoff = Backoff()
        while not self._quit.is_set():
            # Checked before reading: bytes read after the end are complete.
            ended = self._attempt.ended.is_set()
            try:
                moved = [self._ship(stream, ended) for stream in _IN_TURN]
            except (MasterClientError, OSError) as error:
                patience = backoff.seconds()
                log.warning("cannot ship, trying again in %.1f s: %s", patience, error)
                self._quit.wait(patience)
                continue
            except RequestRefusedError as error:
                self.refusal = str(error)
                log.warning("the master takes no more of this attempt: %s", error)
                return
            backoff.reset()
            if ended and not any(moved):
                self.has_shipped_all = True
                return
            # After a full chunk there is more data, and after the end there is no reason to wait.
            if max(moved) < _CHUNK_BYTES and not ended:
                hurry = self._attempt.hurry
                hurry.wait(self._gather_seconds if any(moved) else 0.1)
                hurry.clear()

    def quit(self) -> None:
        """End soon, without shipping the rest."""
        self._quit.set()

    def _ship(self, stream: StreamName, ended: bool) -> int:
        """Send the next chunk of a stream; return the advance of the master's offset in bytes."""
        file, before = self._attempt.streams[stream], self._offsets[stream]
        data = file.read(before, _CHUNK_BYTES)
        written = file.size()
        if stream == "metrics" and not ended and len(data) < _CHUNK_BYTES:
            data = whole_lines(data)
        if not data:
            return 0
        a = self._attempt.assignment
        # The master may skip a part of a long log. Its offset is after that part then.
        path = f"/api/runs/{a.run_id}/ranks/{a.rank}/{stream}?attempt={a.attempt}&written={written}"
        shipped = self._link.ship(path, before, data)
        self._offsets[stream] = shipped.offset
        self._gather_seconds = shipped.next_ship_seconds
        return self._offsets[stream] - before
