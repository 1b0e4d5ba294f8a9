"""Who holds a local TCP connection, asked of the kernel by sock_diag(7): one socket, at any load.

Reading /proc/net/tcp instead takes milliseconds for each thousand connections of the machine.
"""

import os
import socket
import struct
from contextlib import suppress
from functools import cache
from typing import NamedTuple

_PROTOCOL, _BY_FAMILY = 4, 20  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")
# Ports, addresses and interface of an inet_diag_sockid; without the cookie, which is any.
_CONNECTION = struct.Struct("!HH16s16sI")
_ANY_COOKIE = b"\xff" * 8
_ANSWER_BYTES = 4096
_SECONDS = 1.0

_NOBODY = "0.0.0.0", 0  # noqa: S104 - the other end of a socket that listens
Address = tuple[str, int]
"""The host, in IPv4, and the port of a socket."""


class Holder(NamedTuple):
    """The user and the inode of a socket; both 0 once its process has closed it."""

    uid: int
    inode: int


def find(own: Address, other: Address) -> Holder | None:
    """Return the holder of the socket at one end of a connection, in the network of this thread.

    None if there is no such socket, or no answer.
    """
    hosts = (socket.inet_aton(host).ljust(16, b"\0") for host in (own[0], other[0]))
    connection = _CONNECTION.pack(own[1], other[1], *hosts, 0)
    states, extensions = 0xFFFFFFFF, 0
    request = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, extensions, states)
    body = request + connection + _ANY_COOKIE
    header = _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    answer = b""
    with (
        suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _PROTOCOL) as kernel,
    ):
        kernel.settimeout(_SECONDS)
        kernel.sendto(header + body, (0, 0))
        answer = kernel.recv(_ANSWER_BYTES)
    message = struct.Struct(f"=4x{_CONNECTION.size + len(_ANY_COOKIE)}s3III")
    if len(answer) < _HEADER.size + message.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    found, _, _, _, uid, inode = message.unpack_from(answer, _HEADER.size)
    # Without the connection, the kernel returns a socket that listens at this port.
    return Holder(uid, inode) if found[:4] == connection[:4] else None


@cache
def is_available() -> bool:
    """Check, once, that the kernel answers: about a socket of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = find(listener.getsockname(), _NOBODY)
    return found is not None and found.uid == os.geteuid()
