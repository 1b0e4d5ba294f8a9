"""Finds the holder of a local TCP connection through the kernel's sock_diag(7).

The time does not depend on the number of sockets. Reading /proc/net/tcp instead takes milliseconds
per thousand connections of the machine.
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
# Ports, addresses and interface of an inet_diag_sockid, which is followed by a cookie.
_CONNECTION = struct.Struct("!HH16s16sI")
_ANY_COOKIE = b"\xff" * 8

Address = tuple[str, int]
"""IPv4 address and port of a socket."""


class Holder(NamedTuple):
    """The user and the inode of a socket; both 0 once its process has closed it."""

    uid: int
    inode: int


def find(own: Address, other: Address) -> Holder | None:
    """Return the holder of the socket at one end of a connection, in the network of this thread.

    None if the socket does not exist, or the kernel does not respond.
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
        kernel.settimeout(1.0)
        kernel.sendto(header + body, (0, 0))
        answer = kernel.recv(4096)
    message = struct.Struct(f"=4x{_CONNECTION.size + len(_ANY_COOKIE)}s3III")
    if len(answer) < _HEADER.size + message.size or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    ports, _, _, _, uid, inode = message.unpack_from(answer, _HEADER.size)
    # If the connection does not exist, the kernel returns a socket that listens at this port.
    return Holder(uid, inode) if ports[:4] == connection[:4] else None


@cache
def is_available() -> bool:
    """Check, once, that the kernel responds to a request about a socket of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        no_peer = "0.0.0.0", 0  # noqa: S104 - the other end of a listening socket
        holder = find(listener.getsockname(), no_peer)
    return holder is not None and holder.uid == os.geteuid()
