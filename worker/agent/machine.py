"""The machine of a rank: its system, cores, memory, bandwidth and GPUs, with their limits.

Limits of cores and memory are those of Linux's control groups, of both versions: of all groups from
the own one up to the root the tightest holds. Inside a container the own group may be mounted as
the root. The bandwidth is that of the token bucket on the way out of this pod, read by netlink, as
an image may lack tc. A limit outside of the pod, such as one that a cluster's network sets on the
node, cannot be seen.
"""

import contextlib
import ctypes
import os
import platform
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mlbench.records import Machine

_CPU_MODEL = re.compile(r"(?:model name|cpu)\s*:\s*(.*\S)")


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
_NETLINK_SECONDS = 5.0
_NVML = "libnvidia-ml.so.1"
_LONGEST_GPU_NAME = 96  # as NVML has it, for a version too


def read_machine(root: Path = Path("/")) -> Machine:
    """Return the facts of this machine; ``root`` holds the files of the operating system."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit(root)
    return Machine(
        hostname=platform.node(),
        os=_os(),
        architecture=platform.machine(),
        cpu_model=_cpu_model(root),
        cpus=len(os.sched_getaffinity(0)),
        cpu_limit=cpu_limit(root),
        bandwidth_limit=bandwidth_limit(root),
        memory_bytes=memory_bytes,
        memory_limit_bytes=limit if limit is not None and limit < memory_bytes else None,
    )


def _os() -> str:
    kernel = f"{platform.system()} {platform.release()}"
    with contextlib.suppress(OSError):
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    return kernel


def _cpu_model(root: Path) -> str | None:
    """Return the first core's model, where the kernel tells it, as on x86 and POWER."""
    with contextlib.suppress(OSError), (root / "proc/cpuinfo").open(errors="replace") as lines:
        # Not in full: with hundreds of cores that takes a while.
        return next((found[1] for line in lines if (found := _CPU_MODEL.match(line))), None)
    return None


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Return how many cores' worth of time may be used; None where that is not limited."""
    found = [
        *(_words(group / "cpu.max") for group in _groups(root, "")),
        *(
            [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
            for group in _groups(root, "cpu")
        ),
    ]
    return min((cores for words in found if (cores := _cores(words))), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return how many bytes of memory may be used; None where that is not limited.

    The first version of control groups spells no limit as one that no machine reaches.
    """
    found = [
        *(_words(group / "memory.max") for group in _groups(root, "")),
        *(_words(group / "memory.limit_in_bytes") for group in _groups(root, "memory")),
    ]
    return min((int(word) for words in found for word in words if word.isdecimal()), default=None)


def killed_for_memory(root: Path = Path("/")) -> int:
    """Return how many processes of this group the kernel has killed for using too much memory."""
    counted = [
        *(group / "memory.events" for group in _groups(root, "")),
        *(group / "memory.oom_control" for group in _groups(root, "memory")),
    ]
    for path in counted:
        for line in _lines(path):
            match line.split():
                case ["oom_kill", count]:
                    return int(count)
    return 0


def _cores(words: Sequence[str]) -> float | None:
    """Return a quota by its period, both in microseconds; a quota of max or -1 is no limit."""
    match words:
        case [quota, period] if quota.isdecimal() and period.isdecimal():
            return int(quota) / int(period)
        case _:
            return None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's groups; in the second version the controller is ""."""
    for line in _lines(root / "proc/self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controller in controllers.split(","):
            own = PurePosixPath(path.lstrip("/"))
            for group in (own, *own.parents):
                yield root / "sys/fs/cgroup" / controller / group


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


@dataclass(frozen=True)
class Qdisc:
    """A queueing discipline, which decides when an interface sends a packet."""

    interface: int
    """The interface's number."""
    is_root: bool
    kind: str
    bits_per_second: int | None
    """The rate of a token bucket; None for other kinds."""


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
    """Return the queueing disciplines of this network namespace.

    Raises:
        OSError: the kernel does not answer.
    """
    request = _HEADER.pack(
        _HEADER.size + _TRAFFIC.size, _GET_QDISC, _REQUEST | _DUMP, 1, 0
    ) + _TRAFFIC.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.settimeout(_NETLINK_SECONDS)
        link.send(request)
        return [parse_qdisc(message) for message in _messages(link)]


def parse_qdisc(message: bytes) -> Qdisc:
    """Return the queueing discipline of a netlink message without its header."""
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


@dataclass(frozen=True)
class Gpus:
    """The GPUs by NVIDIA's driver; empty without one."""

    names: tuple[str, ...] = ()
    driver: str | None = None


def read_gpus() -> Gpus:
    """Return the GPUs in the driver's order. It may take the driver seconds to wake up."""
    try:
        nvml = ctypes.CDLL(_NVML)
        if nvml.nvmlInit_v2():
            return Gpus()
        try:
            return Gpus(_gpu_names(nvml), _gpu_driver(nvml))
        finally:
            nvml.nvmlShutdown()
    except (OSError, AttributeError):  # no library, or one that lacks a function
        return Gpus()


def _gpu_names(nvml: ctypes.CDLL) -> tuple[str, ...]:
    count = ctypes.c_uint()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return ()
    return tuple(_gpu_name(nvml, index) for index in range(count.value))


def _gpu_name(nvml: ctypes.CDLL, index: int) -> str:
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_LONGEST_GPU_NAME)
    failed = nvml.nvmlDeviceGetHandleByIndex_v2(
        ctypes.c_uint(index), ctypes.byref(device)
    ) or nvml.nvmlDeviceGetName(device, name, ctypes.c_uint(_LONGEST_GPU_NAME))
    return "a GPU that does not answer" if failed else name.value.decode(errors="replace")


def _gpu_driver(nvml: ctypes.CDLL) -> str | None:
    version = ctypes.create_string_buffer(_LONGEST_GPU_NAME)
    failed = nvml.nvmlSystemGetDriverVersion(version, ctypes.c_uint(_LONGEST_GPU_NAME))
    return None if failed else version.value.decode(errors="replace")
