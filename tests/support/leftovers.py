"""End the processes that an interrupted test session leaves, such as a detached stack.

``python -m tests.support.leftovers SESSION`` waits until its stdin is closed, which happens
whenever pytest ends. It then ends each process whose environment has
``MLBENCH_TEST_SESSION=SESSION``.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

_MARK: Final = "MLBENCH_TEST_SESSION"
# A stack ends its processes within this time after SIGTERM.
_STOP_SECONDS: Final = 10.0


def watch_this_session() -> Callable[[], None]:
    """Mark this process and its descendants, and start a watcher that ends them afterwards.

    Returns:
        A function that ends the processes now. Keep a reference to it: when it is garbage
        collected, the watcher ends them at once.
    """
    session = os.environ[_MARK] = uuid.uuid4().hex
    watcher = subprocess.Popen(
        [sys.executable, "-m", "tests.support.leftovers", session],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not reach the watcher.
    )

    def end() -> None:
        watcher.communicate()

    return end


def _marked(session: str) -> list[int]:
    mark = f"{_MARK}={session}".encode()
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # The process has ended, or belongs to another user.
        if mark in environ and int(folder.name) != os.getpid():
            processes.append(int(folder.name))
    return processes


def main(session: str) -> None:
    """Wait for the end of the session, and end its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    deadline = time.monotonic() + _STOP_SECONDS
    signal_number = signal.SIGTERM
    while processes := _marked(session):
        for process in processes:
            try:
                os.kill(process, signal_number)
            except ProcessLookupError:
                continue
        time.sleep(0.5)
        if time.monotonic() > deadline:
            signal_number = signal.SIGKILL


if __name__ == "__main__":
    main(sys.argv[1])
