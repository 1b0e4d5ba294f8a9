"""Whether other agents of this machine follow files in the same folder as this one."""

import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from mlbench_worker.agent.files import text_of

# An agent that has left stays visible for longer than others pause between two looks.
_VISIBLE_SECONDS = 10.0
_SOCKETS = Path("/proc/thread-self/net/unix")


class Presence:
    """Makes agents visible to each other, by Unix sockets without a file.

    Their names have the numbers of the agent's folder and of the folders above it, and later the
    time at which the agent left.
    """

    def __init__(self, folder: Path) -> None:
        """Become visible."""
        self.is_alone = True
        """Whether no other agent was seen since then in the folder, above it, or below it."""
        self._began = time.monotonic()  # the same clock for all processes
        self._id = secrets.token_hex(8)
        self._names: list[str] = []
        self._sockets: list[socket.socket] = []
        try:
            here, *above = [_number_of(place) for place in (folder, *folder.parents)]
            self._names = [f"in-{here}", *(f"below-{number}" for number in above)]
            self._sockets = self._shown()
        except OSError:
            self.is_alone = False  # agents that cannot see each other are not known to be alone
            return
        near = (f"below-{here}", f"in-{here}", *(f"in-{number}" for number in above))
        self._near = re.compile(rf"@mlbench-(?:{'|'.join(near)})-(?!{self._id})\w+-([\d.]*)")

    def look(self) -> None:
        """Look for other agents."""
        if self.is_alone:
            left = self._near.findall(text_of(_SOCKETS))
            self.is_alone = all(at and float(at) < self._began for at in left)

    def close(self) -> None:
        """Show for some seconds that this agent has left."""
        shown, self._sockets = self._sockets, []
        with suppress(OSError, RuntimeError):  # no descriptor, or no thread, is left
            self._sockets = self._shown(f"{time.monotonic():.3f}")
            timer = threading.Timer(_VISIBLE_SECONDS, _close, [self._sockets])
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
    for one in sockets:
        one.close()


def _number_of(folder: Path) -> str:
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}"
