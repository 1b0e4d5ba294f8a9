"""Network traffic of a namespace, from the kernel's table of interfaces.

The exporter reads it every few seconds, so most of a short run is between two readings. Agents read
it when a rank's process has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TABLE = Path("/proc/net/dev")
# Columns of the table after the name.
_RECEIVED, _SENT = 0, 8


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
