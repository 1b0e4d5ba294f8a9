"""The bandwidth that the kernel holds this pod to: the token bucket on its way out.

Read from the kernel by netlink, as an image may lack tc, and without any capability. What is set
outside of the pod, such as by a plugin of the cluster's network on the node, cannot be seen.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# From linux/netlink.h, linux/rtnetlink.h and linux/pkt_sched.h, in the machine's byte order.
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_TRAFFIC = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_RATE = struct.Struct("=8xI")  # of struct tc_ratespec, the bytes per second
_ERROR_NUMBER = struct.Struct("=i")
_RATE64 = struct.Struct("=Q")
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_GET_QDISC = 38
_KIND, _OPTIONS = 1, 2
_TBF_PARAMETERS, _TBF_RATE64 = 1, 4
_TYPE_MASK = 0x3FFF  # the highest bits say how an attribute is packed
_ROOT = 0xFFFFFFFF
_BUFFER_BYTES = 1 << 16
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Qdisc:
    """A queueing discipline: what decides when an interface sends a packet."""

    interface: int
    """The interface's number."""
    is_root: bool
    kind: str
    bits_per_second: int | None
    """What a token bucket lets through; None for other kinds."""


def bandwidth_limit(root: Path = Path("/")) -> float | None:
    """Return the Mbit/s that this pod may send; None where that is not limited."""
    interface = _default_interface(root)
    if interface is None:
        return None
    try:
        number = socket.if_nametoindex(interface)
        found = [q.bits_per_second for q in read_qdiscs() if q.is_root and q.interface == number]
    except OSError:  # a kernel without them
        return None
    return next((bits / 1e6 for bits in found if bits is not None), None)


def read_qdiscs() -> list[Qdisc]:
    """Return all that the kernel has in this network namespace.

    Raises:
        OSError: the kernel does not say.
    """
    request = _HEADER.pack(
        _HEADER.size + _TRAFFIC.size, _GET_QDISC, _REQUEST | _DUMP, 1, 0
    ) + _TRAFFIC.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.settimeout(_PATIENCE_SECONDS)
        link.send(request)
        return [parse_qdisc(message) for message in _messages(link)]


def parse_qdisc(message: bytes) -> Qdisc:
    """Return what a message of the kernel, without its header, says of a qdisc."""
    _, interface, _, parent, _ = _TRAFFIC.unpack_from(message)
    attributes = _attributes(message[_TRAFFIC.size :])
    kind = attributes.get(_KIND, b"").rstrip(b"\0").decode(errors="replace")
    options = _attributes(attributes.get(_OPTIONS, b"")) if kind == "tbf" else {}
    bits = None
    # A rate that needs more than 32 bits comes on its own as well.
    if _TBF_RATE64 in options:
        bits = 8 * int(_RATE64.unpack_from(options[_TBF_RATE64])[0])
    elif _TBF_PARAMETERS in options:
        bits = 8 * int(_RATE.unpack_from(options[_TBF_PARAMETERS])[0])
    return Qdisc(interface, parent == _ROOT, kind, bits)


def _messages(link: socket.socket) -> Iterator[bytes]:
    """Yield the bodies of an answer's messages."""
    while True:
        rest = link.recv(_BUFFER_BYTES)
        while rest:
            length, kind, _, _, _ = _HEADER.unpack_from(rest)
            body = rest[_HEADER.size : length]
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-_ERROR_NUMBER.unpack_from(body)[0], "RTM_GETQDISC")
            yield body
            rest = rest[_aligned(length) :]


def _attributes(packed: bytes) -> Mapping[int, bytes]:
    found = {}
    while len(packed) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(packed)
        found[kind & _TYPE_MASK] = packed[_ATTRIBUTE.size : length]
        packed = packed[max(_aligned(length), _ATTRIBUTE.size) :]
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _default_interface(root: Path) -> str | None:
    """Return the interface of the default route: that of IPv4, or else of IPv6."""
    for interface, destination, *_ in _rows(root / "proc/net/route"):
        if destination == "00000000":
            return interface
    for destination, prefix_length, *_, interface in _rows(root / "proc/net/ipv6_route"):
        if (destination, prefix_length) == ("0" * 32, "00") and interface != "lo":
            return interface
    return None


def _rows(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return []
