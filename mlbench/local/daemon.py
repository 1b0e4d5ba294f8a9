"""What a daemon does at its start: it sets up its log, and how SIGTERM and Ctrl-C end it."""

import logging
import signal
import threading
from collections.abc import Callable


def configure_logging() -> None:
    """Log to stderr, each line with its time and level."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def on_termination(callback: Callable[[], None]) -> None:
    """Call ``callback`` in a new thread when the process gets SIGTERM or SIGINT."""

    def handle(*_: object) -> None:
        # Not in the handler: the main thread may hold a lock that the callback needs.
        threading.Thread(target=callback, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
