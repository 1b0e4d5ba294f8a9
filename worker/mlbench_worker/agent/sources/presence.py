"""Whether other agents of this machine follow files in the same folder as this one."""

import re
import secrets
import socket
import threading
from pathlib import Path

from mlbench_worker.agent.files import text_of

# A short run stays visible for longer than another agent pauses between two looks for files.
_MIN_VISIBLE_SECONDS = 10.0
_SOCKETS = Path("/proc/thread-self/net/unix")


class Presence:
    """Makes agents visible to each other, by Unix sockets without a file.

    Their names have the numbers of the agent's folder and of the folders above it.
    """

    def __init__(self, folder: Path) -> None:
        """Become visible."""
        self.is_alone = True
        """Whether no other agent was seen in the folder, above it, or below it."""
        self._id = secrets.token_hex(8)
        self._sockets: list[socket.socket] = []
        try:
            here, *above = [_number_of(place) for place in (folder, *folder.parents)]
            for name in (f"in-{here}", *(f"below-{number}" for number in above)):
                self._sockets.append(socket.socket(socket.AF_UNIX))
                self._sockets[-1].bind(f"\0mlbench-{name}-{self._id}")
        except OSError:
            self.is_alone = False  # agents that cannot see each other are not known to be alone
            return
        names = (f"below-{here}", f"in-{here}", *(f"in-{number}" for number in above))
        self._near = re.compile(rf"@mlbench-(?:{'|'.join(names)})-(?!{self._id})")

    def look(self) -> None:
        """Look for other agents."""
        if self.is_alone:
            self.is_alone = self._near.search(text_of(_SOCKETS)) is None

    def close(self) -> None:
        """Become invisible a few seconds later."""
        timer = threading.Timer(_MIN_VISIBLE_SECONDS, self._close)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no thread is left
            self._close()

    def _close(self) -> None:
        for one in self._sockets:
            one.close()


def _number_of(folder: Path) -> str:
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}"
