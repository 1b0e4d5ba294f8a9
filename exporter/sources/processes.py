"""Local workers and their machine: processes, found by environment and read with psutil.

A pod's totals must not fall when one of its processes ends, and nothing is kept between two
scrapes. Nothing has to be: when a parent waits for a child that ended, the kernel adds the
child's CPU time to the parent's ``children_*`` times (``cutime``, proc_pid_stat(5)) and the
child's I/O to the parent's own (``signal->ioac``, kernel/exit.c). Until then the child is a
zombie, which still tells its figures. So the sum over living processes and zombies is the pod's
total, as long as the agent, the root of the pod's processes, lives. One thing is the agent's to
do: adopt orphans (PR_SET_CHILD_SUBREAPER, prctl(2)) and wait for them. Otherwise init does, and
what they used is lost.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from exporter import series
from exporter.proc import read_network, read_owners
from exporter.sample import WORKER, Sample
from exporter.usage import Disk, Network, PodUsage

NAMESPACE = "local"

# A reading is taken again when a process ended meanwhile; processes that come and go faster than
# they can be read must not hold up the scrape.
MAX_READINGS = 4


@dataclass(frozen=True)
class ProcessUsage:
    """What one process uses, and used with all children that it has waited for."""

    user_seconds: float
    system_seconds: float
    rss_bytes: int
    anonymous_bytes: int
    threads: int
    """0 once it has ended: a zombie."""
    disk: Disk | None
    """None where this user may not know."""


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
    """Return the seconds without the error of having added floats.

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
    """Return what a process uses, None where it is gone.

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
