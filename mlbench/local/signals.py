"""Ending a process on SIGTERM or Ctrl-C."""

import signal
import threading
from collections.abc import Callable


def on_termination(callback: Callable[[], None]) -> None:
    """Call ``callback`` in a new thread when the process gets SIGTERM or SIGINT."""

    def handle(*_: object) -> None:
        # Not in the handler: the main thread may hold a lock that the callback needs.
        threading.Thread(target=callback, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
