"""The machine of a rank: its system, cores, memory and bandwidth, with their limits.

Limits of cores and memory come from Linux's control groups, of both versions. The tightest limit
of all groups from this process's group up to the root counts. In a container, the process's group
may be mounted as the root. The shaping of this pod's egress is read through netlink, because an
image may lack tc. Limits outside of the pod, for example of a cluster's network on the node, are
not visible.
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
from mlbench_worker.agent.stream_files import text_of

if TYPE_CHECKING:
    from mlbench.contract.records import Machine

# From linux/netlink.h, linux/rtnetlink.h and linux/pkt_sched.h, in the machine's byte order.
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_TRAFFIC = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_RATE = struct.Struct("=8xI")  # of struct tc_ratespec, the bytes per second
_RATE64 = struct.Struct("=Q")
_LOSS = struct.Struct("=8xI")  # of struct tc_netem_qopt
_LATENCY64 = struct.Struct("=q")
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_GET_QDISC = 38
_KIND, _OPTIONS = 1, 2
_TBF_PARAMETERS, _TBF_RATE64 = 1, 4
_NETEM_BYTES, _NETEM_LATENCY64 = 24, 10  # size of that structure, and an attribute after it
_ALL_LOST = 2**32 - 1
_TYPE_MASK = 0x3FFF  # the highest bits say how an attribute is packed
_ROOT = 0xFFFFFFFF

# Linux's files about the processor (Documentation/ABI, sysfs-devices-system-cpu). Many containers
# and virtual machines lack some of them; those facts are left out.
_CPU = Path("sys/devices/system/cpu")
_ON = {"0": "off", "1": "on"}


def read_machine(root: Path = Path("/"), shaping: Shaping | None = None) -> "Machine":
    """Return the facts of this machine; ``root`` contains the files of the operating system.

    ``shaping`` is the shaping of the rank's own network; None for this process's network.
    """
    # A slow import: an external rank must not wait for it.
    from mlbench.contract.records import Machine  # noqa: PLC0415

    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit(root)
    about: dict[str, str] = {}  # the fields of the first core in /proc/cpuinfo
    with contextlib.suppress(OSError), (root / "proc/cpuinfo").open(errors="replace") as lines:
        for line in lines:
            if match := re.match(r"([\w ]+?)\s*:\s*(.*\S)", line):
                about.setdefault(match[1], match[2])
            elif about:
                break
    if shaping is None:
        shaping = read_shaping(default_interface(root))
    system = f"{platform.system()} {platform.release()}"
    with contextlib.suppress(OSError):
        system = f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {system}"
    return Machine(
        hostname=platform.node(),
        os=system,
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


def _processor(root: Path, about: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of the processor by name; unknown ones are left out."""
    turbo_by_pstate = {"0": "on", "1": "off"}.get(_text(root / _CPU / "intel_pstate/no_turbo"))
    generation = ("cpu family", "model", "stepping", "microcode")
    parts = (f"{name.removeprefix('cpu ')} {about[name]}" for name in generation if name in about)
    # The maximum frequency, or in a virtual machine the current one, rounded because it varies.
    highest = _text(root / _CPU / "cpu0/cpufreq/cpuinfo_max_freq")  # kHz
    clock = ""
    if highest.isdecimal():
        clock = f"{int(highest) // 1000} MHz"
    elif "cpu MHz" in about:
        clock = f"{round(float(about['cpu MHz']), -1):.0f} MHz"
    caches = []
    for cache in sorted((root / _CPU / "cpu0/cache").glob("index[0-9]*")):
        level, kind, size = (_text(cache / name) for name in ("level", "type", "size"))
        if level and size:
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            caches.append(f"L{level}{letter} {size}")
    hypervisor = ""
    if "hypervisor" in about.get("flags", "").split():
        # No file names the hypervisor (only the CPUID instruction does), but its clock does.
        clocks = _text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
        hypervisors = {"kvm": "KVM", "hyperv": "Hyper-V", "xen": "Xen"}
        hypervisor = next(
            (hypervisors[hint] for hint in hypervisors if hint in clocks), "not known"
        )
    facts = {
        "generation": ", ".join(parts),
        "clock": clock,
        "governor": _text(root / _CPU / "cpu0/cpufreq/scaling_governor"),
        "turbo": turbo_by_pstate or _ON.get(_text(root / _CPU / "cpufreq/boost"), ""),
        "smt": _ON.get(_text(root / _CPU / "smt/active"), ""),
        "caches": ", ".join(caches),
        "numa_nodes": str(len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or ""),
        "hypervisor": hypervisor,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _text(path: Path) -> str:
    return text_of(path).strip()


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Return the limit of CPU time per time, in cores; None without a limit."""
    groups = of_groups(root, ("", "cpu.max"), ("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
    # A quota and its period in microseconds. A quota of max or -1 means that there is no limit.
    limits = [words for words in groups if len(words) == 2 and all(map(str.isdecimal, words))]
    return min((int(quota) / int(period) for quota, period in limits), default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the memory limit in bytes; None without a limit.

    In the first version of control groups, no limit is a number larger than any memory.
    """
    groups = of_groups(root, ("", "memory.max"), ("memory", "memory.limit_in_bytes"))
    return min((int(word) for words in groups for word in words if word.isdecimal()), default=None)


def available_memory() -> int:
    """Return the available memory of this machine in bytes; 0 if it is unknown."""
    words = text_of(Path("/proc/meminfo")).split()
    return int(words[words.index("MemAvailable:") + 1]) << 10 if "MemAvailable:" in words else 0


@dataclass(frozen=True)
class GroupMemory:
    """The memory, in bytes, of a container or another control group with a limit."""

    limit: int
    used: int
    inactive_files: int
    """The part of ``used`` that the kernel frees first."""


def group_memory(root: Path = Path("/")) -> GroupMemory | None:
    """Return the memory of this process's innermost group with a limit; None without a limit."""
    unlimited = 1 << 60  # the first version of control groups has a larger number for no limit
    for controller, stated, *files in (
        ("", "inactive_file", "memory.max", "memory.current"),
        ("memory", "total_inactive_file", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        for words in of_groups(root, (controller, *files, "memory.stat")):
            if words[1:2] and words[0].isdecimal() and int(words[0]) < unlimited:
                inactive = words[words.index(stated) + 1] if stated in words else 0
                return GroupMemory(int(words[0]), int(words[1]), int(inactive))
    return None


def killed_for_memory(root: Path = Path("/")) -> int:
    """Return the number of this group's processes that the kernel has killed for their memory."""
    for words in of_groups(root, ("", "memory.events"), ("memory", "memory.oom_control")):
        if "oom_kill" in words:
            return int(words[words.index("oom_kill") + 1])
    return 0


def of_groups(root: Path, *controllers: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the words in files of each of this process's groups, the innermost first.

    ``controllers`` are names of controllers, each followed by its files. The name is "" for the
    second version of control groups.
    """
    groups = text_of(root / "proc/self/cgroup").splitlines()
    for (controller, *files), line in product(controllers, groups):
        group_controllers, _, path = line.partition(":")[2].partition(":")
        if controller in group_controllers.split(","):
            own = PurePosixPath(path.lstrip("/"))
            for group in (own, *own.parents):
                folder = root / "sys/fs/cgroup" / controller / group
                yield [word for name in files for word in text_of(folder / name).split()]


def read_shaping(interface: str | None) -> Shaping:
    """Return the shaping of the traffic sent on an interface of this network namespace."""
    if interface is None:
        return Shaping()
    # Request the queueing disciplines of all interfaces.
    length = _HEADER.size + _TRAFFIC.size
    request = _HEADER.pack(length, _GET_QDISC, _REQUEST | _DUMP, 1, 0)
    request += _TRAFFIC.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    qdiscs: list[Qdisc] = []
    try:
        number = socket.if_nametoindex(interface)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as client:
            client.settimeout(5.0)
            client.send(request)
            while True:
                rest = client.recv(1 << 16)
                while rest:
                    length, kind, _, _, _ = _HEADER.unpack_from(rest)
                    if kind == _DONE:
                        return shaping_of(qdiscs, number)
                    if kind == _ERROR:
                        return Shaping()
                    qdiscs.append(Qdisc.read(rest[_HEADER.size : length]))
                    rest = rest[_aligned(length) :]
    except OSError:  # a kernel without them
        return Shaping()


@dataclass(frozen=True)
class Qdisc:
    """The kernel's description of a queueing discipline."""

    interface: int
    handle: int
    parent: int
    kind: bytes
    options: bytes

    @classmethod
    def read(cls, message: bytes) -> "Qdisc":
        """Parse a message without its header."""
        _, interface, handle, parent, _ = _TRAFFIC.unpack_from(message)
        attributes = _attributes(message[_TRAFFIC.size :])
        kind = attributes.get(_KIND, b"").rstrip(b"\0")
        return cls(interface, handle, parent, kind, attributes.get(_OPTIONS, b""))


def shaping_of(qdiscs: Iterable[Qdisc], interface: int) -> Shaping:
    """Return the shaping by an interface's root discipline, and by its child if it is netem."""
    by_parent = {qdisc.parent: qdisc for qdisc in qdiscs if qdisc.interface == interface}
    shaping, qdisc = Shaping(), by_parent.get(_ROOT)
    if qdisc is not None and qdisc.kind == b"netem":
        (loss,) = _LOSS.unpack_from(qdisc.options)
        latency = _attributes(qdisc.options[_NETEM_BYTES:])[_NETEM_LATENCY64]
        (nanoseconds,) = _LATENCY64.unpack_from(latency)
        # The kernel stores a multiple of 1 / (2^32 - 1): rounding restores the requested number.
        percent = round(loss / _ALL_LOST * 100, 6)
        shaping = Shaping(latency_ms=nanoseconds / 1e6 or None, loss_percent=percent or None)
        qdisc = by_parent.get(qdisc.handle | 1)
    if qdisc is not None and qdisc.kind == b"tbf":
        attributes = _attributes(qdisc.options)
        # A rate of more than 32 bits has an additional attribute.
        if _TBF_RATE64 in attributes:
            (rate,) = _RATE64.unpack_from(attributes[_TBF_RATE64])
        else:
            (rate,) = _RATE.unpack_from(attributes[_TBF_PARAMETERS])
        shaping = replace(shaping, max_bandwidth=8 * rate / 1e6)
    return shaping


def _attributes(packed: bytes) -> Mapping[int, bytes]:
    attributes = {}
    while len(packed) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(packed)
        attributes[kind & _TYPE_MASK] = packed[_ATTRIBUTE.size : length]
        packed = packed[max(_aligned(length), _ATTRIBUTE.size) :]
    return attributes


def _aligned(length: int) -> int:
    return (length + 3) & ~3
