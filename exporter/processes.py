"""Local workers and their machine: processes, found by environment and read with psutil.

A pod's totals must not fall when one of its processes ends, and nothing is kept between two
scrapes. Nothing has to be: when a parent waits for a child that ended, the kernel adds the
child's CPU time to the parent's ``children_*`` times (``cutime``, proc_pid_stat(5)) and the
child's I/O to the parent's own (``signal->ioac``, kernel/exit.c). Until then the child is a
zombie, which still tells its figures. So the sum over living processes and zombies is the pod's
total, as long as the agent, the root of the pod's processes, lives. The agent has to adopt orphans
(PR_SET_CHILD_SUBREAPER, prctl(2)) and wait for them. Otherwise init does, and what they used is
lost.

Every process of this user is looked at in each scrape, so owners are read from /proc itself, in
less than half of the time that psutil needs for the same.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from exporter import series
from exporter.series import WORKER, Sample
from mlbench import names

PROC = Path("/proc")
NAMESPACE = "local"

# A reading is taken again when a process ended meanwhile; processes that come and go faster than
# they can be read must not hold up the scrape.
MAX_READINGS = 4


@dataclass(frozen=True)
class Network:
    """Bytes through a network namespace since it exists, the loopback interface left out."""

    receive_bytes: int
    transmit_bytes: int


@dataclass(frozen=True)
class Disk:
    """Bytes read from storage and written to it since the pod's first process started.

    Reads that the page cache answers do not count; writes count when they enter the cache.
    """

    read_bytes: int
    write_bytes: int


@dataclass(frozen=True)
class PodUsage:
    """The resource use of one container of one pod, as read at one moment.

    What is None is unknown, and its series are left out.
    """

    namespace: str
    pod: str
    container: str
    node: str
    cpu_user_seconds: float
    """CPU time in user mode since the pod's first process started; never falls."""
    cpu_usage_seconds: float
    """CPU time in user and kernel mode since the pod's first process started; never falls."""
    memory_usage_bytes: int
    """Memory held, pages of files included."""
    memory_working_set_bytes: int
    """Memory held that the kernel cannot take back by dropping pages of files."""
    threads: int
    processes: int
    disk: Disk | None
    network: Network | None

    def samples(self) -> Iterator[Sample]:
        """Yield a sample of each figure that is known."""
        figures = {
            series.CPU_USAGE: self.cpu_usage_seconds,
            series.CPU_USER: self.cpu_user_seconds,
            series.MEMORY_USAGE: self.memory_usage_bytes,
            series.MEMORY_WORKING_SET: self.memory_working_set_bytes,
            series.THREADS: self.threads,
            series.PROCESSES: self.processes,
        }
        if self.disk:
            figures[series.FS_READS] = self.disk.read_bytes
            figures[series.FS_WRITES] = self.disk.write_bytes
        if self.network:
            figures[series.NETWORK_RECEIVE] = self.network.receive_bytes
            figures[series.NETWORK_TRANSMIT] = self.network.transmit_bytes
        labels = (self.namespace, self.pod, self.container, self.node)
        for of, value in figures.items():
            yield Sample(of, labels, value)


@dataclass(frozen=True)
class ProcessUsage:
    """The usage of one process and of all children that it has waited for."""

    user_seconds: float
    system_seconds: float
    rss_bytes: int
    anonymous_bytes: int
    threads: int
    """0 once it has ended: a zombie."""
    disk: Disk | None
    """None if this user may not read it."""


class ProcessSource:
    """Reads this machine, and on it the pods of the local stack that has ``home`` as its folder."""

    name = "processes"

    def __init__(self, home: Path, node: str) -> None:
        self._home = home
        self._node = node

    def read(self) -> Iterator[Sample]:
        """Yield the samples of this machine, and of every pod that has a living process."""
        yield Sample(series.MACHINE_MEMORY, (self._node,), psutil.virtual_memory().total)
        yield Sample(series.MACHINE_CORES, (self._node,), psutil.cpu_count() or 1)
        for usage in self.read_pods():
            yield from usage.samples()

    def read_pods(self) -> list[PodUsage]:
        """Return the use of every pod that has a living process."""
        for _ in range(MAX_READINGS):
            pods = self._find()
            usages = [
                pod_usage(pod, self._node, measured, read_network(process.pid for process in found))
                for pod, found in sorted(pods.items())
                if (measured := [usage for process in found if (usage := measure(process))])
            ]
            # One that was waited for meanwhile may be counted twice, by itself and by its parent,
            # or by neither.
            if all(process.is_running() for found in pods.values() for process in found):
                break
        return usages

    def _find(self) -> dict[str, list[psutil.Process]]:
        pods: defaultdict[str, list[psutil.Process]] = defaultdict(list)
        for pid, owner in read_owners().items():
            if owner.home != self._home:
                continue
            try:
                pods[owner.pod].append(psutil.Process(pid))
            except psutil.NoSuchProcess:
                continue
        return pods


def pod_usage(
    pod: str, node: str, processes: Sequence[ProcessUsage], network: Network | None
) -> PodUsage:
    """Return the sum over the processes of a pod.

    Memory usage is the sum of resident set sizes. The working set leaves out what is shared
    (pages of files, shared memory), so pages that several processes map are not counted twice.
    I/O is unknown where that of one process is.
    """
    user_seconds = sum(process.user_seconds for process in processes)
    system_seconds = sum(process.system_seconds for process in processes)
    disks = [process.disk for process in processes if process.disk]
    return PodUsage(
        namespace=NAMESPACE,
        pod=pod,
        container=WORKER,
        node=node,
        cpu_user_seconds=_whole_ticks(user_seconds),
        cpu_usage_seconds=_whole_ticks(user_seconds + system_seconds),
        memory_usage_bytes=sum(process.rss_bytes for process in processes),
        memory_working_set_bytes=sum(process.anonymous_bytes for process in processes),
        threads=sum(process.threads for process in processes),
        processes=sum(process.threads > 0 for process in processes),
        disk=_add(disks) if len(disks) == len(processes) else None,
        network=network,
    )


def _whole_ticks(seconds: float) -> float:
    """Return the seconds without the rounding error of a sum of floats.

    The kernel counts in hundredths. Time that moves from a child to its parent changes what is
    added to what, and with it the last bit of the sum; where that makes the sum smaller,
    Prometheus sees a counter that was reset, and adds the whole of it once more.
    """
    return round(seconds, 6)


def _add(disks: Sequence[Disk]) -> Disk:
    return Disk(
        read_bytes=sum(disk.read_bytes for disk in disks),
        write_bytes=sum(disk.write_bytes for disk in disks),
    )


def measure(process: psutil.Process) -> ProcessUsage | None:
    """Measure a process; None if it is gone.

    From /proc/<pid>/stat (CPU), statm (memory), status (threads) and io.
    """
    try:
        with process.oneshot():
            cpu = process.cpu_times()
            memory = process.memory_info()
            ended = process.status() == psutil.STATUS_ZOMBIE
            return ProcessUsage(
                user_seconds=cpu.user + cpu.children_user,
                system_seconds=cpu.system + cpu.children_system,
                rss_bytes=memory.rss,
                anonymous_bytes=memory.rss - memory.shared,
                threads=0 if ended else process.num_threads(),
                disk=_measure_disk(process),
            )
    except (psutil.NoSuchProcess, FileNotFoundError):  # psutil lets the latter through at times
        return None


def _measure_disk(process: psutil.Process) -> Disk | None:
    try:
        counters = process.io_counters()
    except psutil.AccessDenied:  # Linux 6.18 hides a zombie's, and a protected process's
        return None
    return Disk(read_bytes=counters.read_bytes, write_bytes=counters.write_bytes)


@dataclass(frozen=True)
class Owner:
    """The pod that a process belongs to, and the home folder of that pod's stack."""

    home: Path
    pod: str


def read_owners() -> dict[int, Owner]:
    """Return the owner of every process of this user that has one, by process id.

    A process belongs to the pod that its environment names. One whose environment names none
    belongs where its parent does: a zombie has no environment any more, another may hide or
    clear its own. Processes that come or go meanwhile may be missing.
    """
    named: dict[int, Owner] = {}
    parents: dict[int, int] = {}
    for pid in _own_processes():
        owner = _read_named_owner(pid)
        if owner is not None:
            named[pid] = owner
            continue
        try:
            parents[pid] = _read_parent(pid)
        except OSError:  # it is gone
            continue
    return adopt(named, parents)


def named_owner(environment: bytes) -> Owner | None:
    """Return the owner that an environment names; None if it lacks the pod or the home.

    ``environment`` is as /proc/<pid>/environ holds it: ``NAME=value`` entries that end in NUL.
    """
    pod = _variable(environment, names.ENV_POD)
    home = _variable(environment, names.ENV_HOME)
    if not pod or not home:
        return None
    return Owner(Path(home), pod)


def adopt(named: Mapping[int, Owner], parents: Mapping[int, int]) -> dict[int, Owner]:
    """Return the named processes and those, of the others, that descend from one of them.

    ``parents`` holds the parent's id of each process that names no owner.
    """
    owners = dict(named)
    while found := {
        pid: owners[parent]
        for pid, parent in parents.items()
        if pid not in owners and parent in owners
    }:
        owners |= found
    return owners


def read_network(pids: Iterable[int]) -> Network | None:
    """Return the traffic of a pod's network namespace; None if it is the exporter's own.

    A pod's processes share one namespace, so the first that can be read counts for all. None also
    if none can be read.
    """
    own = (PROC / "self" / "ns" / "net").readlink()
    for pid in pids:
        try:
            if (PROC / str(pid) / "ns" / "net").readlink() == own:
                return None
            return parse_network((PROC / str(pid) / "net" / "dev").read_text())
        except OSError:  # it is gone, a zombie, or hidden
            continue
    return None


def parse_network(table: str) -> Network:
    """Return the sum over all interfaces but ``lo``.

    ``table`` is as /proc/<pid>/net/dev holds it (proc_pid_net(5)): two lines of heading, then
    for each interface eight columns received and eight transmitted, bytes first in each.
    """
    received = transmitted = 0
    for line in table.splitlines()[2:]:
        interface, _, figures = line.partition(":")
        if interface.strip() == "lo":
            continue
        columns = figures.split()
        received += int(columns[0])
        transmitted += int(columns[8])
    return Network(received, transmitted)


def _own_processes() -> Iterator[int]:
    """Yield the processes of this user; the environment of others could not be read."""
    user = os.geteuid()
    with os.scandir(PROC) as entries:
        for entry in entries:
            if not entry.name.isdecimal():
                continue
            try:
                owner = entry.stat().st_uid
            except OSError:  # it is gone
                continue
            if owner == user:
                yield int(entry.name)


def _read_named_owner(pid: int) -> Owner | None:
    try:
        return named_owner((PROC / str(pid) / "environ").read_bytes())
    except OSError:  # it is gone, a zombie, or hidden
        return None


def _read_parent(pid: int) -> int:
    # The name, second in the line, stands in brackets and may hold any character.
    stat = (PROC / str(pid) / "stat").read_bytes()
    return int(stat.rpartition(b")")[2].split()[1])


def _variable(environment: bytes, name: str) -> str | None:
    _, found, rest = (b"\0" + environment).partition(f"\0{name}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if found else None
