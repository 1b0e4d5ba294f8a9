"""Attributes of this machine, and of sample files and messages from other machines."""

import os
import platform
import struct
from pathlib import Path

import psutil
import pytest

from mlbench.contract.shaping import Shaping
from mlbench_worker.agent.kernel import throttled_seconds
from mlbench_worker.agent.machine import (
    GroupMemory,
    Qdisc,
    cpu_limit,
    group_memory,
    killed_for_memory,
    memory_limit,
    read_machine,
    shaping_of,
)


def test_this_machine() -> None:
    machine = read_machine()
    assert machine.hostname == platform.node()
    assert machine.architecture == platform.machine()
    assert platform.release() in (machine.os or "")
    assert machine.cpus == len(os.sched_getaffinity(0))
    assert machine.memory_bytes == psutil.virtual_memory().total


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", errors="surrogateescape")


def write_groups(root: Path, files: dict[str, str]) -> None:
    """Write control group files. ``cgroup`` is the file that lists this process's groups."""
    folders = {name: "proc/self" if name == "cgroup" else "sys/fs/cgroup" for name in files}
    write(root, {f"{folders[name]}/{name}": text for name, text in files.items()})


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC \ncpu MHz\t\t: 2596.1", "AMD EPYC"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec\nclock\t\t: 3800MHz", "POWER9, altivec"),
        ("processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd0c", None),
        ("model name\t:", None),
        ("model name\t: \udcff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_model_of_the_first_core(text: str, model: str | None, tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": text})
    assert read_machine(tmp_path).cpu_model == model


def test_a_limit_that_does_not_restrict_the_memory_is_ignored(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    for limit, told in {total: None, total - 1: total - 1}.items():
        write_groups(tmp_path, {"cgroup": "0::/", "memory.max": str(limit)})
        assert read_machine(tmp_path).memory_limit_bytes == told


_NESTED = {
    "cgroup": "0::/user.slice/run.scope",
    "user.slice/cpu.max": "200000 100000",
    "user.slice/run.scope/cpu.max": "max 100000",
    "user.slice/memory.max": "1000",
    "user.slice/run.scope/memory.max": "2000",
    "user.slice/memory.events": "oom_kill 9",
    "user.slice/run.scope/memory.events": "low 0\nhigh 0\nmax 7\noom 5\noom_kill 3",
    "user.slice/run.scope/cpu.stat": "usage_usec 9\nthrottled_usec 2500000",
}
# In a container without a cgroup namespace, the container's group is mounted as the root.
_FIRST_VERSION = {
    "cgroup": "5:memory:/docker/0a1b\n3:cpuacct,cpu:/docker/0a1b\n1:name=systemd:/\n0::/",
    "cpu/cpu.cfs_quota_us": "50000",
    "cpu/cpu.cfs_period_us": "100000",
    "cpu/cpu.stat": "nr_periods 4\nthrottled_time 2500000000",
    "memory/memory.limit_in_bytes": "1048576",
    "memory/memory.oom_control": "oom_kill_disable 0\noom_kill 3",
}
_OUTSIDE = {"cgroup": "5:memory:/\n3:cpuacct,cpu:/"}
_UNLIMITED = {"cgroup": "0::/", "cpu.max": "max 100000", "memory.max": "max"}
_UNLIMITED_FIRST = {"cgroup": "1:cpu:/", "cpu/cpu.cfs_period_us": "100000"}
_NOTHING = (None, None, 0, None)


_SECOND_OF_TASK = {
    "cgroup": "0::/pod/task",
    "pod/task/memory.max": "max",
    "pod/task/memory.current": "10",
    "pod/memory.max": "1000",
    "pod/memory.current": "700",
    "pod/memory.stat": "anon 600\ninactive_file 90",
}
_FIRST_OF_TASK = {
    "cgroup": "5:memory:/task",
    "memory/task/memory.limit_in_bytes": "2000",
    "memory/task/memory.usage_in_bytes": "800",
    "memory/task/memory.stat": "inactive_file 1\ntotal_inactive_file 80",
}
_FIRST_UNLIMITED = _FIRST_OF_TASK | {"memory/task/memory.limit_in_bytes": str(2**63 - 4096)}


@pytest.mark.parametrize(
    ("files", "memory"),
    [
        (_SECOND_OF_TASK, GroupMemory(1000, 700, 90)),
        (_FIRST_OF_TASK, GroupMemory(2000, 800, 80)),
        (_FIRST_UNLIMITED, None),
    ],
)
def test_the_memory_of_the_innermost_group_with_a_limit(
    files: dict[str, str], memory: GroupMemory | None, tmp_path: Path
) -> None:
    write_groups(tmp_path, files)
    assert group_memory(tmp_path) == memory


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (_NESTED, (2.0, 1000, 3, 2.5)),
        (_FIRST_VERSION, (0.5, 1 << 20, 3, 2.5)),
        (_FIRST_VERSION | _OUTSIDE, (0.5, 1 << 20, 3, 2.5)),
        ({}, _NOTHING),
        ({"cgroup": ""}, _NOTHING),
        ({"cgroup": "0::/gone"}, _NOTHING),
        (_UNLIMITED, _NOTHING),
        (_UNLIMITED_FIRST, _NOTHING),
        (_UNLIMITED_FIRST | {"cpu/cpu.cfs_quota_us": "-1"}, _NOTHING),
    ],
)
def test_the_tightest_limit_of_the_control_groups_holds(
    files: dict[str, str], told: tuple[float | None, ...], tmp_path: Path
) -> None:
    """The costs of the limits are read too: killed processes and throttled seconds."""
    write_groups(tmp_path, files)
    limits = cpu_limit(tmp_path), memory_limit(tmp_path)
    assert (*limits, killed_for_memory(tmp_path), throttled_seconds(tmp_path)) == told


def qdisc(interface: int, handle: int, parent: int, kind: bytes, options: bytes) -> Qdisc:
    """Return a queueing discipline as decoded from the kernel's message."""
    attributes = b"".join(
        struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
        for number, value in ((1, kind + b"\0"), (2, options))
    )
    return Qdisc.read(struct.pack("=BxxxiIII", 0, interface, handle, parent, 1) + attributes)


def test_latency_loss_and_bandwidth_are_read_from_netem() -> None:
    """No kernel in these tests has netem, so the structures follow linux/pkt_sched.h."""
    loss = round(0.01 * (2**32 - 1))
    late = struct.pack("=6I", 78125, 100_000, loss, 0, 0, 0) + struct.pack(
        "=HHq", 12, 10, 5_000_000
    )
    rate = struct.pack("=HH8xI", 16, 1, 20_000_000 // 8)
    root = qdisc(2, 0x10000, 0xFFFFFFFF, b"netem", late)
    behind = qdisc(2, 0x20000, 0x10001, b"tbf", rate)
    others = [qdisc(3, 0x10000, 0xFFFFFFFF, b"tbf", rate), qdisc(2, 0, 0xFFFFFFF1, b"clsact", b"")]
    assert shaping_of([root, behind, *others], 2) == Shaping(20.0, 5.0, 1.0)
    assert shaping_of([root, *others], 2) == Shaping(None, 5.0, 1.0)
    assert shaping_of([behind, *others], 2) == Shaping()
