"""Local workers and their machine: processes, found by environment and read with psutil.

A pod's totals must not fall when one of its processes ends, and nothing is kept between two
scrapes. Nothing has to be: when a parent waits for a child that ended, the kernel adds the
child's CPU time to the parent's ``children_*`` times (``cutime``, proc_pid_stat(5)) and the
child's I/O to the parent's own (``signal->ioac``, kernel/exit.c). Until then the child is a
zombie, which still tells its figures. So the sum over living processes and zombies is the pod's
total, as long as the agent, the root of the pod's processes, lives. The agent has to adopt orphans
(PR_SET_CHILD_SUBREAPER, prctl(2)) and wait for them. Otherwise init does, and what they used is
lost.

Every process of this user is looked at in each scrape, so pods are read from /proc itself, in less
than half of the time that psutil needs for the same.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench.contract import names
from mlbench.local.proc import read_proc
from mlbench.local.traffic import parse_traffic
from mlbench_exporter import series
from mlbench_exporter.series import WORKER, Sample, Series

PROC = Path("/proc")
NAMESPACE = "local"

# A reading is taken again when a process ended meanwhile; processes that come and go faster than
# they can be read must not hold up the scrape.
MAX_READINGS = 4

Usage = dict[Series, float]
"""What a process or a pod uses, as far as it is known."""


@dataclass(frozen=True)
class ProcessSource:
    """Reads this machine, and on it the pods of the local stack that has ``home`` as its folder."""

    name = "processes"

    home: Path
    node: str

    def read(self) -> Iterator[Sample]:
        """Yield the samples of this machine, and of every pod that has a living process."""
        yield Sample(series.MACHINE_MEMORY, (self.node,), psutil.virtual_memory().total)
        yield Sample(series.MACHINE_CORES, (self.node,), psutil.cpu_count() or 1)
        for pod, usage in sorted(self.read_pods().items()):
            for of, value in usage.items():
                yield Sample(of, (NAMESPACE, pod, WORKER, self.node), value)

    def read_pods(self) -> dict[str, Usage]:
        """Add up what each pod uses that has a living process."""
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
            # One that was waited for meanwhile may be counted twice, by itself and by its parent,
            # or by neither.
            if all(process.is_running() for processes in pods.values() for process in processes):
                break
        return usages


def add(processes: Sequence[Usage]) -> Usage:
    """Add up what is known of all the processes of a pod.

    The kernel counts CPU time in hundredths of a second. Time that moves from a child to its parent
    changes what is added to what, and with it the last bit of a sum of floats. It is rounded off:
    Prometheus would take a smaller sum for a counter that was reset, and add all of it once more.
    """
    return {
        of: round(sum(usage[of] for usage in processes), 6)
        for of in processes[0]
        if all(of in usage for usage in processes)
    }


def measure(process: psutil.Process) -> Usage | None:
    """Measure a process and the children that it has waited for; None if it is gone.

    The working set leaves out what is shared (pages of files, shared memory), so pages that several
    processes map are not counted twice. Reads that the page cache answers do not count; writes
    count when they enter the cache.
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
            # Linux 6.18 hides a zombie's, and a protected one's.
            with suppress(psutil.AccessDenied):
                disk = process.io_counters()
                usage |= {series.FS_READS: disk.read_bytes, series.FS_WRITES: disk.write_bytes}
    except (psutil.NoSuchProcess, FileNotFoundError):  # psutil lets the latter through at times
        return None
    return usage


def find_processes(home: Path) -> dict[int, str]:
    """Find the pods that processes of this user belong to, by process id.

    A process belongs to the pod that its environment names. One whose environment names none
    belongs where its parent does: a zombie has no environment any more, another may hide or
    clear its own. Processes that come or go meanwhile may be missing.
    """
    user = os.geteuid()
    pods: dict[int, str] = {}
    parents: dict[int, int] = {}
    for entry in os.scandir(PROC):
        with suppress(OSError):  # it is gone
            if entry.name.isdecimal() and entry.stat().st_uid == user:
                environment = b""
                with suppress(OSError):  # it is a zombie, or hidden
                    environment = read_proc(f"{entry.path}/environ")
                pod = named_pod(environment, home)
                if pod is not None:
                    pods[int(entry.name)] = pod
                else:
                    # The name, second in the line, stands in brackets and may hold any character.
                    behind_name = read_proc(f"{entry.path}/stat").rpartition(b")")[2]
                    parents[int(entry.name)] = int(behind_name.split(None, 2)[1])
    return {pid: pod for pid, pod in adopt(pods, parents).items() if pod}


def named_pod(environment: bytes, home: Path) -> str | None:
    """Read the pod that an environment names: "" for one of another stack, None for none.

    ``environment`` is as /proc/<pid>/environ holds it: ``NAME=value`` entries that end in NUL.
    """
    if names.ENV_POD.encode() not in environment:
        return None  # nearly always
    pod, its_home = (_variable(environment, name) for name in (names.ENV_POD, names.ENV_HOME))
    if not pod or not its_home:
        return None
    return pod if Path(its_home) == home else ""


def _variable(environment: bytes, name: str) -> str:
    rest = (b"\0" + environment).partition(f"\0{name}=".encode())[2]
    return os.fsdecode(rest.partition(b"\0")[0])


def adopt(pods: dict[int, str], parents: dict[int, int]) -> dict[int, str]:
    """Add to the processes of pods those that descend from them, and name no pod themselves.

    ``parents`` holds the parent's id of each process that names none.
    """
    pods = dict(pods)
    while children := {
        pid: pods[parent] for pid, parent in parents.items() if pid not in pods and parent in pods
    }:
        pods |= children
    return pods


def read_network(pids: Iterable[int]) -> Usage:
    """Read the traffic of a pod's network namespace; nothing if it has that of the exporter.

    A pod's processes share one, but for its agent, which has the exporter's: the first counts that
    can be read, and has another.
    """
    own = (PROC / "self/ns/net").readlink()
    for pid in pids:
        with suppress(OSError):  # it is gone, a zombie, or hidden
            if (PROC / f"{pid}/ns/net").readlink() != own:
                moved = parse_traffic((PROC / f"{pid}/net/dev").read_text())
                return {series.NETWORK_RECEIVE: moved.received, series.NETWORK_TRANSMIT: moved.sent}
    return {}
