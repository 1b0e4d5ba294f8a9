"""Egress from a network of a run's own: a proxy's connections to other machines, and to no more.

The agent is outside of that network. What it alone can reach is not for the run's code: this
machine's own servers, and the metadata server that clouds have at a link-local address.
"""

import ipaddress
import selectors
import socket
from contextlib import suppress

_PIECE_BYTES = 64 << 10
_HTTPS = 443


def ports_of(text: str) -> frozenset[int]:
    """Return the ports that MLBENCH_LET_OUT lets code out to: 443 if it is "1", else its list.

    Raises:
        ValueError: it is neither.
    """
    if text == "1":
        return frozenset({_HTTPS})
    parts = text.split(",")
    if not all(part.isdecimal() and 0 < int(part[:6]) < 1 << 16 for part in parts):
        raise ValueError(f"MLBENCH_LET_OUT must be 1, or ports such as 443,8443 (not {text!r})")
    return frozenset(int(part) for part in parts)


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Connect to another machine, whatever name it is given by.

    Raises:
        OSError: it cannot be reached, or is this machine.
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
    """Pass on what either of two connections sends, until one of them ends."""
    with server, selectors.DefaultSelector() as ready:
        for source, target in ((client, server), (server, client)):
            source.settimeout(None)
            ready.register(source, selectors.EVENT_READ, target)
        while True:
            for key, _ in ready.select():
                piece = key.fileobj.recv(_PIECE_BYTES)  # type: ignore[union-attr]
                if not piece:
                    return
                key.data.sendall(piece)


def _is_elsewhere(text: str) -> bool:
    """Tell if an address is of another machine."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None) or address
    if inner.is_loopback or inner.is_link_local or inner.is_unspecified or inner.is_multicast:
        return False
    family = socket.AF_INET if inner.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as own:
        own.bind((str(inner), 0))  # which only an address of this machine allows
        return False
    return True
