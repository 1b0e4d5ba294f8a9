"""Local workers and their machine: processes, found by their environment and read with psutil.

The totals of a pod must not fall when one of its processes exits, and no state is kept between
scrapes. None is needed: when a parent waits for an exited child, the kernel adds the child's CPU
time to the parent's ``children_*`` times (``cutime``, proc_pid_stat(5)), and the child's I/O to the
parent's own (``signal->ioac``, kernel/exit.c). Until then the child is a zombie, which still
reports its usage. So the sum over living processes and zombies is the total of the pod while the
agent lives, which is the root of its processes. The agent has to adopt orphans
(PR_SET_CHILD_SUBREAPER, prctl(2)) and wait for them. Otherwise init does, and their usage is lost.

Every scrape looks at all processes of this user. The pods are therefore read from /proc itself, in
less than half of the time that psutil needs.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench.contract import names
from mlbench.local.proc import parse_traffic, read_proc
from mlbench_exporter import exported_series as series
from mlbench_exporter.exported_series import WORKER, ExportedSample, ExportedSeries

PROC = Path("/proc")
NAMESPACE = "local"

# Readings are repeated if a process exited in between, but at most this often, because processes
# that start and exit very quickly must not delay the scrape.
MAX_READINGS = 4

Usage = dict[ExportedSeries, float]
"""Known usage of a process or a pod."""


@dataclass(frozen=True)
class ProcessSource:
    """Reads this machine, and the pods of the local stack in the folder ``home``."""

    name = "processes"

    home: Path
    node: str

    def read(self) -> Iterator[ExportedSample]:
        """Yield the samples of this machine, and of every pod with a living process."""
        yield ExportedSample(series.MACHINE_MEMORY, (self.node,), psutil.virtual_memory().total)
        yield ExportedSample(series.MACHINE_CORES, (self.node,), psutil.cpu_count() or 1)
        for pod, usage in sorted(self.read_pods().items()):
            for kind, value in usage.items():
                yield ExportedSample(kind, (NAMESPACE, pod, WORKER, self.node), value)

    def read_pods(self) -> dict[str, Usage]:
        """Return the usage of each pod with a living process."""
        for _ in range(MAX_READINGS):
            pods: defaultdict[str, list[psutil.Process]] = defaultdict(list)
            for pid, pod in find_processes(self.home).items():
                with suppress(psutil.NoSuchProcess):
                    pods[pod].append(psutil.Process(pid))
            usages = {
                pod: add(measured) | read_network(process.pid for process in processes)
                for pod, processes in pods.items()
                if (measured := [usage for process in processes if (usage := measure(process))])
            }
            # The usage of a process that exited in between may be counted twice (for the process
            # and for its parent) or not at all.
            if all(process.is_running() for processes in pods.values() for process in processes):
                break
        return usages


def add(processes: Sequence[Usage]) -> Usage:
    """Sum the usage of a pod's processes; values that one of them lacks are left out.

    Rounded to 1 µs: when a child exits, its CPU time moves to its parent, and the changed order of
    additions could make the float sum smaller by one bit. Prometheus would read that as a counter
    reset.
    """
    return {
        kind: round(sum(usage[kind] for usage in processes), 6)
        for kind in processes[0]
        if all(kind in usage for usage in processes)
    }


def measure(process: psutil.Process) -> Usage | None:
    """Measure a process and the children that it has waited for; None if it no longer exists.

    The working set leaves out shared memory and pages of files, so that pages which several
    processes map are not counted twice. Reads from the page cache do not count; writes count when
    they enter the cache.
    """
    try:
        with process.oneshot():
            cpu = process.cpu_times()
            user = cpu.user + cpu.children_user
            memory = process.memory_info()
            ended = process.status() == psutil.STATUS_ZOMBIE
            usage: Usage = {
                series.CPU_USAGE: user + cpu.system + cpu.children_system,
                series.CPU_USER: user,
                series.MEMORY_USAGE: memory.rss,
                series.MEMORY_WORKING_SET: memory.rss - memory.shared,
                series.THREADS: 0 if ended else process.num_threads(),
                series.PROCESSES: 0 if ended else 1,
            }
            # Linux 6.18 hides the I/O counters of zombies and protected processes.
            with suppress(psutil.AccessDenied):
                disk = process.io_counters()
                usage |= {series.FS_READS: disk.read_bytes, series.FS_WRITES: disk.write_bytes}
    except (psutil.NoSuchProcess, FileNotFoundError):  # psutil sometimes raises the latter
        return None
    return usage


def find_processes(home: Path) -> dict[int, str]:
    """Return the pods of this user's processes, by process id.

    A process belongs to the pod that its environment names, or else to the pod of its parent: a
    zombie has no environment, and other processes may hide or clear theirs. Processes that start
    or exit meanwhile may be missing.
    """
    user = os.geteuid()
    pods: dict[int, str] = {}
    parents: dict[int, int] = {}
    for entry in os.scandir(PROC):
        with suppress(OSError):  # the process no longer exists
            if entry.name.isdecimal() and entry.stat().st_uid == user:
                environment = b""
                with suppress(OSError):  # a zombie, or hidden
                    environment = read_proc(f"{entry.path}/environ")
                pod = named_pod(environment, home)
                if pod is not None:
                    pods[int(entry.name)] = pod
                else:
                    # The second field, the name in brackets, may contain any character.
                    fields = read_proc(f"{entry.path}/stat").rpartition(b")")[2]
                    parents[int(entry.name)] = int(fields.split(None, 2)[1])
    return {pid: pod for pid, pod in adopt(pods, parents).items() if pod}


def named_pod(environment: bytes, home: Path) -> str | None:
    """Return the pod that an environment names: "" for a pod of another stack, None for no pod.

    ``environment`` has the format of /proc/<pid>/environ: ``NAME=value`` entries that end in NUL.
    """
    if names.ENV_POD.encode() not in environment:
        return None  # the fast path for most processes
    variables = [entry.partition(b"=") for entry in environment.split(b"\0")]
    # The first entry of a name counts, like for getenv(3).
    values = {os.fsdecode(name): os.fsdecode(value) for name, _, value in reversed(variables)}
    pod, pod_home = values.get(names.ENV_POD), values.get(names.ENV_HOME)
    if not pod or not pod_home:
        return None
    return pod if Path(pod_home) == home else ""


def adopt(pods: dict[int, str], parents: dict[int, int]) -> dict[int, str]:
    """Add to the processes of pods their descendants that name no pod themselves.

    ``parents`` has the parent of each process that names no pod.
    """
    pods = dict(pods)
    while children := {
        pid: pods[parent] for pid, parent in parents.items() if pid not in pods and parent in pods
    }:
        pods |= children
    return pods


def read_network(pids: Iterable[int]) -> Usage:
    """Return the traffic of a pod's network namespace; empty if it shares the exporter's.

    All processes of a pod share one namespace, except its agent, which is in the namespace of the
    exporter. So the first readable process in another namespace counts.
    """
    own = (PROC / "self/ns/net").readlink()
    for pid in pids:
        with suppress(OSError):  # exited, a zombie, or hidden
            if (PROC / f"{pid}/ns/net").readlink() != own:
                traffic = parse_traffic((PROC / f"{pid}/net/dev").read_text())
                received, sent = traffic.received, traffic.sent
                return {series.NETWORK_RECEIVE: received, series.NETWORK_TRANSMIT: sent}
    return {}
