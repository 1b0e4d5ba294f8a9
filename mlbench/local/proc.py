"""Kernel files below /proc: a fast reader, and the network traffic of a namespace.

A machine of workers has thousands of such files. The exporter reads the traffic every few seconds,
so most of a short run is between two readings. Agents read it when a rank's process has ended.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PIECE_BYTES = 64 << 10
TABLE = Path("/proc/net/dev")
# Columns of the table after the name.
_RECEIVED, _SENT = 0, 8


def read_proc(path: str) -> bytes:
    """Return the content of a kernel file, in a third of the time that a file object takes.

    Raises:
        OSError: the file does not exist, or belongs to another user.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _PIECE_BYTES)
        if len(data) >= 4096:  # a shorter file was complete at once
            while more := os.read(descriptor, _PIECE_BYTES):
                data += more
        return data
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Traffic:
    """Bytes on all interfaces except loopback, including headers and Ethernet frames."""

    sent: int
    received: int


def parse_traffic(table: str) -> Traffic:
    """Add up the rows of ``/proc/net/dev`` (proc_pid_net(5)), after two lines of heading.

    Each has eight columns received and eight sent, bytes first in each.
    """
    rows = [line.partition(":") for line in table.splitlines()[2:]]
    counts = [fields.split() for name, _, fields in rows if name.strip() != "lo"]
    return Traffic(*(sum(int(row[column]) for row in counts) for column in (_SENT, _RECEIVED)))


def traffic_from_now() -> Callable[[], Traffic]:
    """Return a function that reports the traffic of this network namespace since this call."""
    begun = parse_traffic(TABLE.read_text())

    def since() -> Traffic:
        now = parse_traffic(TABLE.read_text())
        return Traffic(now.sent - begun.sent, now.received - begun.received)

    return since
