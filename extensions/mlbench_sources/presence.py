"""Detects other agents on this machine that follow files in the same folder."""

import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from mlbench_worker.agent.stream_files import text_of


class Presence:
    """Makes agents visible to each other through abstract Unix sockets.

    The names of the sockets contain the numbers of the agent's folder and of its parents, and after
    the agent has left, the time of that.
    """

    def __init__(self, folder: Path) -> None:
        """Open the sockets."""
        self.is_alone = True
        """Whether no other agent was seen so far in the folder, its parents, or below it."""
        self._began = time.monotonic()  # the same clock for all processes
        self._id = secrets.token_hex(8)
        self._names: list[str] = []
        self._sockets: list[socket.socket] = []
        try:
            statuses = [place.stat() for place in (folder, *folder.parents)]
            here, *above = [f"{status.st_dev}:{status.st_ino}" for status in statuses]
            self._names = [f"in-{here}", *(f"below-{number}" for number in above)]
            self._sockets = self._shown()
        except OSError:
            self.is_alone = False  # other agents may exist that this one cannot see
            return
        near = (f"below-{here}", f"in-{here}", *(f"in-{number}" for number in above))
        self._near = re.compile(rf"@mlbench-(?:{'|'.join(near)})-(?!{self._id})\w+-([\d.]*)")

    def look(self) -> None:
        """Look for other agents."""
        if self.is_alone:
            times = self._near.findall(text_of(Path("/proc/thread-self/net/unix")))
            self.is_alone = all(at and float(at) < self._began for at in times)

    def close(self) -> None:
        """Show for 10 seconds, longer than others pause between looks, that this agent has left."""
        shown, self._sockets = self._sockets, []
        with suppress(OSError, RuntimeError):  # no descriptors or threads are left
            self._sockets = self._shown(f"{time.monotonic():.3f}")
            timer = threading.Timer(10.0, _close, [self._sockets])
            timer.daemon = True
            timer.start()
        _close(shown)

    def _shown(self, left_at: str = "") -> list[socket.socket]:
        sockets = []
        for name in self._names:
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].bind(f"\0mlbench-{name}-{self._id}-{left_at}")
        return sockets


def _close(sockets: list[socket.socket]) -> None:
    for opened in sockets:
        opened.close()
