"""Heads of requests: where they end, which lane they go to, how long a body to wait for.

Gunicorn parses the request once it is there, and judges it. Whatever looks odd here goes to it as
it is, in the lane of what a thread has to wait for.
"""

import re
from dataclasses import dataclass

from master.serving.lanes import Lane, choose

# Longer ones are refused by gunicorn.
_LONGEST_HEAD = 64 << 10
# Agents ship chunks of up to 4 MiB.
_LONGEST_BODY = 4 << 20

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_ODD = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade)[ \t]*:", re.IGNORECASE)


@dataclass(frozen=True)
class Head:
    """What a request's head says of how to serve it."""

    lane: Lane
    whole: int
    """Bytes of head and body that are to be there before a thread takes the request."""


def find_head(arrived: bytes | bytearray) -> Head | None:
    """Return the head that a request begins with; nothing while it is not whole."""
    end = arrived.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if end < 0:
        # With a line that ends otherwise, it never will be.
        never = len(arrived) >= _LONGEST_HEAD or re.search(rb"(?<!\r)\n", arrived)
        return Head(Lane.SLOW, 0) if never else None
    head = bytes(arrived[: end + 2])
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or _ODD.search(head):
        return Head(Lane.SLOW, 0)
    length = int(lengths[0]) if lengths else 0
    if length > _LONGEST_BODY:
        return Head(Lane.SLOW, 0)
    return Head(choose(head), end + 4 + length)
