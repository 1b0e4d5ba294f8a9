"""Finds the process at the client's end of a local TCP connection, and its user.

The kernel's sock_diag(7) tells the holder of a connection. Its time does not depend on the number
of sockets. Reading /proc/net/tcp instead takes milliseconds per thousand connections of the
machine.
"""

import os
import re
import socket
import struct
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mlbench.contract.process import ProcessRank
from mlbench_worker.agent.process_lookup import MAX_PROCESSES, descendants, has_open, other_process

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


def caller(client: Address, server: Address, root: int | None = None) -> ProcessRank | None:
    """Return the process that is connected to a server; None for the worker's own rank.

    The process is ``root`` or a descendant of it, or by default a descendant of the agent.
    """
    # The kernel's lists of children and connections may miss an entry while others end.
    looks = (find_pid(client, server, root) for _ in range(3))
    pid = next(filter(None, looks), None)
    return other_process(pid) if pid else None


def find_pid(client: Address, server: Address, root: int | None) -> int | None:
    """Return the process id of the caller; None if the lists do not show it now."""
    inodes: dict[str, str] = {}  # inodes of sockets at the client's port, by network
    if has_sock_diag():
        holder = find_holder(client, server)
        inodes[_network_of("thread-self")] = str(holder.inode) if holder and holder.inode else ""
    for pid in islice([root, *descendants(root)] if root else descendants(), MAX_PROCESSES):
        inode = ""
        with suppress(OSError):
            network = _network_of(pid)
            if network not in inodes:
                table = Path(f"/proc/{pid}/net/tcp").read_text()
                inodes[network] = _field_in(table, client[1], 9)
            inode = inodes[network]
        if inode and has_open(pid, Path(f"socket:[{inode}]")):
            return pid
    return None


def is_of_another_user(client: Address, server: Address) -> bool:
    """Check whether a client in the agent's network belongs to neither its user nor root."""
    if has_sock_diag():
        holder = find_holder(client, server)
        return holder is not None and holder.uid not in (os.geteuid(), 0)
    try:
        table = Path("/proc/thread-self/net/tcp").read_text()
    except OSError:
        return False
    user = _field_in(table, client[1], 7)
    return user != "" and int(user) not in (os.geteuid(), 0)


def _network_of(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def _field_in(table: str, port: int, field: int) -> str:
    """Return a field of a port's line in /proc/net/tcp, counted as in proc_net(5)."""
    # Split only the matching line of thousands.
    line = re.search(rf"^ *\d+: [0-9A-F]+:{port:04X} .*", table, re.MULTILINE)
    return line[0].split()[field] if line else ""


def find_holder(own: Address, other: Address) -> Holder | None:
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
def has_sock_diag() -> bool:
    """Check, once, that the kernel responds to a request about a socket of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        no_peer = "0.0.0.0", 0  # noqa: S104 - the other end of a listening socket
        holder = find_holder(listener.getsockname(), no_peer)
    return holder is not None and holder.uid == os.geteuid()
