"""The machine of a rank: its system, cores, memory and bandwidth, with their limits.

Limits of cores and memory are those of Linux's control groups, of both versions: of all groups from
the own one up to the root the tightest holds. Inside a container the own group may be mounted as
the root. How this pod's egress is shaped is read by netlink, as an image may lack tc. A
limit outside of the pod, such as one that a cluster's network sets on the node, cannot be seen.
"""

import contextlib
import os
import platform
import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mlbench.contract.shaping import Shaping, default_interface
from mlbench_worker.agent.files import text_of

if TYPE_CHECKING:
    from mlbench.contract.records import Machine

# From linux/netlink.h, linux/rtnetlink.h and linux/pkt_sched.h, in the machine's byte order.
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_TRAFFIC = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_RATE = struct.Struct("=8xI")  # of struct tc_ratespec, the bytes per second
_ERROR_NUMBER = struct.Struct("=i")
_RATE64 = struct.Struct("=Q")
_LOSS = struct.Struct("=8xI")  # of struct tc_netem_qopt
_LATENCY64 = struct.Struct("=q")
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_GET_QDISC = 38
_KIND, _OPTIONS = 1, 2
_TBF_PARAMETERS, _TBF_RATE64 = 1, 4
_NETEM_BYTES, _NETEM_LATENCY64 = 24, 10  # the size of that structure, and what follows it
_ALL_LOST = 2**32 - 1
_TYPE_MASK = 0x3FFF  # the highest bits say how an attribute is packed
_ROOT = 0xFFFFFFFF
_BUFFER_BYTES = 1 << 16
_NETLINK_SECONDS = 5.0

# Of the processor, as Linux tells it (Documentation/ABI, sysfs-devices-system-cpu), of the first
# core. What the kernel does not tell, as in many containers and virtual machines, is left out.
_NO_LIMIT_BYTES = 1 << 60  # the first version of control groups spells none as a larger number
_CPU = Path("sys/devices/system/cpu")
_ABOUT = re.compile(r"([\w ]+?)\s*:\s*(.*\S)")
_GENERATION = ("cpu family", "model", "stepping", "microcode")
_OF_KIND = {"Data": "d", "Instruction": "i"}
_ON = {"0": "off", "1": "on"}
_KHZ_PER_MHZ = 1000
# A clock that a hypervisor offers names it; what processors say of it is in no file.
_OF_CLOCKS = {"kvm": "KVM", "hyperv": "Hyper-V", "xen": "Xen"}


def read_machine(root: Path = Path("/"), shaping: Shaping | None = None) -> "Machine":
    """Return the facts of this machine; ``root`` holds the files of the operating system.

    ``shaping`` is that of another network than this process's.
    """
    # All records take a while to import, for which a rank that others start need not wait.
    from mlbench.contract.records import Machine  # noqa: PLC0415

    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, about = memory_limit(root), _first_core(root)
    if shaping is None:
        shaping = read_shaping(default_interface(root))
    return Machine(
        hostname=platform.node(),
        os=_os(),
        architecture=platform.machine(),
        cpu_model=about.get("model name") or about.get("cpu"),
        processor=_processor(root, about),
        cpus=len(os.sched_getaffinity(0)),
        cpu_limit=cpu_limit(root),
        bandwidth_limit=shaping.max_bandwidth,
        latency_ms=shaping.latency_ms,
        loss_percent=shaping.loss_percent,
        memory_bytes=memory_bytes,
        memory_limit_bytes=limit if limit is not None and limit < memory_bytes else None,
    )


def _os() -> str:
    kernel = f"{platform.system()} {platform.release()}"
    with contextlib.suppress(OSError):
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    return kernel


def _processor(root: Path, about: Mapping[str, str]) -> dict[str, str]:
    off = {"0": "on", "1": "off"}.get(_text(root / _CPU / "intel_pstate/no_turbo"))
    parts = (f"{name.removeprefix('cpu ')} {about[name]}" for name in _GENERATION if name in about)
    facts = {
        "generation": ", ".join(parts),
        "clock": _clock(root, about),
        "governor": _text(root / _CPU / "cpu0/cpufreq/scaling_governor"),
        "turbo": off or _ON.get(_text(root / _CPU / "cpufreq/boost"), ""),
        "smt": _ON.get(_text(root / _CPU / "smt/active"), ""),
        "caches": ", ".join(_caches(root)),
        "numa_nodes": str(len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or ""),
        "hypervisor": _hypervisor(root, about),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _first_core(root: Path) -> Mapping[str, str]:
    """Return what /proc/cpuinfo says of the first core; with hundreds of cores, all is long."""
    fields: dict[str, str] = {}
    with contextlib.suppress(OSError), (root / "proc/cpuinfo").open(errors="replace") as lines:
        for line in lines:
            if match := _ABOUT.match(line):
                fields.setdefault(match[1], match[2])
            elif fields:
                break
    return fields


def _clock(root: Path, about: Mapping[str, str]) -> str:
    """Return the highest clock, or in a virtual machine the one that it has."""
    highest = _text(root / _CPU / "cpu0/cpufreq/cpuinfo_max_freq")
    if highest.isdecimal():
        return f"{int(highest) // _KHZ_PER_MHZ} MHz"
    # It goes up and down by a few.
    return f"{round(float(about['cpu MHz']), -1):.0f} MHz" if "cpu MHz" in about else ""


def _caches(root: Path) -> Iterator[str]:
    for cache in sorted((root / _CPU / "cpu0/cache").glob("index[0-9]*")):
        level, kind, size = (_text(cache / name) for name in ("level", "type", "size"))
        if level and size:
            yield f"L{level}{_OF_KIND.get(kind, '')} {size}"


def _hypervisor(root: Path, about: Mapping[str, str]) -> str:
    if "hypervisor" not in about.get("flags", "").split():
        return ""
    clocks = _text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
    return next((name for hint, name in _OF_CLOCKS.items() if hint in clocks), "not known")


def _text(path: Path) -> str:
    return text_of(path).strip()


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Return how many cores' worth of time may be used; None where that is not limited."""
    found = of_groups(root, ("", "cpu.max"), ("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
    # A quota and its period, both in microseconds; a quota of max or -1 is no limit.
    limits = [words for words in found if len(words) == 2 and all(map(str.isdecimal, words))]
    return min((int(quota) / int(period) for quota, period in limits), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return how many bytes of memory may be used; None where that is not limited.

    The first version of control groups spells no limit as one that no machine reaches.
    """
    found = of_groups(root, ("", "memory.max"), ("memory", "memory.limit_in_bytes"))
    return min((int(word) for words in found for word in words if word.isdecimal()), default=None)


def available_memory() -> int:
    """Return how many bytes of this machine's memory processes can have; 0 if it does not tell."""
    words = text_of(Path("/proc/meminfo")).split()
    return int(words[words.index("MemAvailable:") + 1]) << 10 if "MemAvailable:" in words else 0


@dataclass(frozen=True)
class GroupMemory:
    """The memory of a container, or of another control group that has a limit, in bytes."""

    limit: int
    used: int
    inactive_files: int
    """Of this, what the kernel drops first."""


def group_memory(root: Path = Path("/")) -> GroupMemory | None:
    """Return the memory of the innermost group with a limit that this process is in."""
    for controller, stated, *files in (
        ("", "inactive_file", "memory.max", "memory.current"),
        ("memory", "total_inactive_file", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        for words in of_groups(root, (controller, *files, "memory.stat")):
            if words[1:2] and words[0].isdecimal() and int(words[0]) < _NO_LIMIT_BYTES:
                inactive = words[words.index(stated) + 1] if stated in words else 0
                return GroupMemory(int(words[0]), int(words[1]), int(inactive))
    return None


def killed_for_memory(root: Path = Path("/")) -> int:
    """Return how many processes of this group the kernel has killed for using too much memory."""
    for words in of_groups(root, ("", "memory.events"), ("memory", "memory.oom_control")):
        if "oom_kill" in words:
            return int(words[words.index("oom_kill") + 1])
    return 0


def of_groups(root: Path, *wanted: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the words in some files of each of this process's groups, its own one first.

    ``wanted`` are controllers, each with its files; in the second version of control groups, the
    controller is "".
    """
    groups = text_of(root / "proc/self/cgroup").splitlines()
    for (controller, *files), line in product(wanted, groups):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controller in controllers.split(","):
            own = PurePosixPath(path.lstrip("/"))
            for group in (own, *own.parents):
                folder = root / "sys/fs/cgroup" / controller / group
                yield [word for name in files for word in text_of(folder / name).split()]


def read_shaping(interface: str | None) -> Shaping:
    """Return how what is sent on an interface of this network namespace is held back."""
    if interface is None:
        return Shaping()
    try:
        number = socket.if_nametoindex(interface)
        return shaping_of([Qdisc.read(message) for message in _read_qdiscs()], number)
    except OSError:  # a kernel without them
        return Shaping()


@dataclass(frozen=True)
class Qdisc:
    """A queueing discipline, as the kernel describes it."""

    interface: int
    handle: int
    parent: int
    kind: bytes
    options: bytes

    @classmethod
    def read(cls, message: bytes) -> "Qdisc":
        """Return what a message, without its header, describes."""
        _, interface, handle, parent, _ = _TRAFFIC.unpack_from(message)
        attributes = _attributes(message[_TRAFFIC.size :])
        kind = attributes.get(_KIND, b"").rstrip(b"\0")
        return cls(interface, handle, parent, kind, attributes.get(_OPTIONS, b""))


def shaping_of(found: Iterable[Qdisc], interface: int) -> Shaping:
    """Return what an interface's root does, and what is behind it if it delays."""
    of_parent = {one.parent: one for one in found if one.interface == interface}
    shaping, one = Shaping(), of_parent.get(_ROOT)
    if one is not None and one.kind == b"netem":
        shaping = _read_netem(one.options)
        one = of_parent.get(one.handle | 1)
    if one is not None and one.kind == b"tbf":
        shaping = replace(shaping, max_bandwidth=_read_rate(one.options) / 1e6)
    return shaping


def _read_qdiscs() -> Iterator[bytes]:
    """Yield the messages, without headers, on this network namespace's queueing disciplines.

    Raises:
        OSError: the kernel does not answer.
    """
    length = _HEADER.size + _TRAFFIC.size
    request = _HEADER.pack(length, _GET_QDISC, _REQUEST | _DUMP, 1, 0)
    request += _TRAFFIC.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.settimeout(_NETLINK_SECONDS)
        link.send(request)
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


def _read_rate(options: bytes) -> int:
    """Return the bits per second of a token bucket."""
    attributes = _attributes(options)
    # A rate that needs more than 32 bits comes on its own as well.
    if _TBF_RATE64 in attributes:
        return 8 * int(_RATE64.unpack_from(attributes[_TBF_RATE64])[0])
    return 8 * int(_RATE.unpack_from(attributes[_TBF_PARAMETERS])[0])


def _read_netem(options: bytes) -> Shaping:
    (loss,) = _LOSS.unpack_from(options)
    (nanoseconds,) = _LATENCY64.unpack_from(_attributes(options[_NETEM_BYTES:])[_NETEM_LATENCY64])
    # The share is of 2^32 - 1: rounded, as the order was to that.
    percent = round(loss / _ALL_LOST * 100, 6)
    return Shaping(latency_ms=nanoseconds / 1e6 or None, loss_percent=percent or None)


def _attributes(packed: bytes) -> Mapping[int, bytes]:
    found = {}
    while len(packed) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(packed)
        found[kind & _TYPE_MASK] = packed[_ATTRIBUTE.size : length]
        packed = packed[max(_aligned(length), _ATTRIBUTE.size) :]
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3
