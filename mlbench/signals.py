"""Ending on SIGTERM or Ctrl-C: one way for every process of ours."""

import signal
import threading
from collections.abc import Callable


def on_termination(callback: Callable[[], None]) -> None:
    """Call back, from a thread of its own, when the process is asked to end."""

    def handle(*_: object) -> None:
        # Not from here: the main thread may be inside the very lock that the callback wants.
        threading.Thread(target=callback, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
