"""Egress from a run's private network: a proxy's connections to other machines only.

The agent is outside of that network. The run's code must not use it to reach servers of this
machine, or the metadata server of a cloud at its link-local address.
"""

import ipaddress
import selectors
import socket
from contextlib import suppress


def ports_of(text: str) -> frozenset[int]:
    """Parse MLBENCH_ALLOW_EGRESS: return the permitted ports, only 443 for the value "1".

    Raises:
        ValueError: the value is neither "1" nor a list of ports.
    """
    if text == "1":
        return frozenset({443})
    parts = text.split(",")
    if not all(part.isdecimal() and 0 < int(part[:6]) < 1 << 16 for part in parts):
        raise ValueError(
            f"MLBENCH_ALLOW_EGRESS must be 1, or ports such as 443,8443 (not {text!r})"
        )
    return frozenset(int(part) for part in parts)


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Connect to another machine.

    Raises:
        OSError: the host is not reachable, or all its addresses belong to this machine.
    """
    problem = OSError(f"{host} has no address")
    for _, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        host_address = str(address[0])
        if not _is_elsewhere(host_address):
            problem = OSError(f"{host} is {host_address}, which is not another machine's")
            continue
        try:
            return socket.create_connection((host_address, port), seconds)
        except OSError as error:
            problem = error
    raise problem


def join(client: socket.socket, server: socket.socket) -> None:
    """Forward the data of two connections to each other, until one of them ends."""
    with server, selectors.DefaultSelector() as ready:
        for source, target in ((client, server), (server, client)):
            source.settimeout(None)
            ready.register(source, selectors.EVENT_READ, target)
        while True:
            for key, _ in ready.select():
                piece = key.fileobj.recv(64 << 10)  # type: ignore[union-attr]
                if not piece:
                    return
                key.data.sendall(piece)


def _is_elsewhere(text: str) -> bool:
    """Check that an address belongs to another machine."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None) or address
    if inner.is_loopback or inner.is_link_local or inner.is_unspecified or inner.is_multicast:
        return False
    family = socket.AF_INET if inner.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as own:
        own.bind((str(inner), 0))  # succeeds only for an address of this machine
        return False
    return True
