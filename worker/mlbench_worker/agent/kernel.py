"""Snapshots of the kernel's counters of a rank's processes, its cores and its machine.

The rank's processes are the descendants of the agent, which adopts those whose parent has ended.
For an external job, they are the descendants of the recorded process.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlbench.local.proc import read_proc
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.machine import of_groups
from mlbench_worker.agent.stream_files import text_of

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_RESOURCES = ("cpu", "memory", "io")


@dataclass(frozen=True, slots=True)
class KernelProcess:
    """A line of the process table: proc_pid_stat(5)."""

    pid: int
    parent: int
    session: int
    name: str
    """Name of the program; for a kernel thread without its changing part, such as kworker."""
    began: int
    """Start time in clock ticks. It differs for a later process with the same number."""
    seconds: float
    """CPU time."""
    children_seconds: float
    """CPU time of ended children that the process has waited for."""
    major_faults: int
    """Page faults that needed a disk, including those of the same children."""
    core: int
    """The last core of the process."""


@dataclass(frozen=True, slots=True)
class KernelThread:
    """The scheduler's counts of a thread."""

    running_seconds: float = 0.0
    waiting_seconds: float = 0.0
    """Time on the queue of a core that ran another thread."""
    involuntary_switches: int = 0
    """Number of times that the thread lost its core to another thread."""


@dataclass(frozen=True)
class Cores:
    """Counts of some cores, summed over them."""

    busy_seconds: float
    """Time in processes, without interrupts."""
    stolen_seconds: float
    """Time taken by the hypervisor for other machines."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The counts at one moment; None for counts that the machine does not have."""

    at: float
    """Time by the monotonic clock."""
    threads: Mapping[tuple[int, int], KernelThread]
    """The running threads of the rank, by process id and thread id."""
    own_seconds: float
    """CPU time of the rank's processes, including ended ones."""
    sibling_seconds: float
    """CPU time of the run's other visible ranks on the same cores."""
    stack_seconds: float
    """CPU time of MLBench's own processes on the same cores; 0 without a stack on this machine."""
    others: Mapping[int, KernelProcess]
    """The visible processes that belong neither to the run nor to the stack."""
    cores: Cores | None
    major_faults: int
    throttled_seconds: float | None
    node_pressure: Mapping[str, float]
    """Seconds in which some process waited for a resource: cpu, memory, io."""
    pod_pressure: Mapping[str, float]
    hertz: float | None
    """The mean frequency of the cores."""
    gpu_limits: Set[str]
    """Reasons that limit the clock of a GPU."""


class Kernel:
    """Reads the counts of a rank that runs on given cores."""

    def __init__(
        self,
        mark: str,
        cores: Set[int],
        root: int | None = None,
        supervisor_lock: Path | None = None,
    ) -> None:
        """Connect to the driver of the GPUs, if any, which may take seconds.

        Args:
            mark: a variable, as ``NAME=VALUE``, in the environments of all processes of the run.
            cores: the cores of the rank.
            root: the process whose descendants are the rank; None for this process.
            supervisor_lock: a file with the process id of the supervisor of a local stack; it need
                not exist.
        """
        self.cores = cores
        self.gpus = Gpus()
        self._mark = f"\0{mark}\0".encode()
        self._root = root
        self._supervisor = 0
        if supervisor_lock:
            with suppress(OSError, ValueError):
                self._supervisor = int(supervisor_lock.read_text())

    def read(self) -> Snapshot:
        """Take a snapshot."""
        table = process_table()
        agent = table[self._root or os.getpid()]
        own = descendants_in(table, agent.pid) | ({agent.pid} if self._root else set())
        foreign = [process for pid, process in table.items() if pid not in own]
        of_run = set()
        for pid in set(map(self._leader, foreign)):
            with suppress(OSError):  # ended, or another user's
                if self._mark in b"\0%b" % read_proc(f"/proc/{pid}/environ"):
                    of_run.add(pid)
        # MLBench's own processes: the stack's, and the ``mlbench`` commands. Each child of the
        # supervisor leads the session of its service; other runs are in other sessions.
        services = {
            pid for pid, process in table.items() if self._supervisor == process.parent != 0
        }
        siblings, stack, others = [], [], {}
        for process in foreign:
            if self._leader(process) in of_run:
                siblings.append(process)
            elif (
                process.session in services
                or process.pid == self._supervisor
                or process.name == "mlbench"
            ):
                stack.append(process)
            else:
                others[process.pid] = process
        frequencies = []
        for core in sorted(self.cores)[:8]:  # reading more takes too long
            cpufreq = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq")
            if kilohertz := text_of(cpufreq / "scaling_cur_freq"):
                frequencies.append(float(kilohertz) * 1000)
        return Snapshot(
            at=time.monotonic(),
            threads=dict(_threads(own)),
            own_seconds=total_seconds(table[pid] for pid in own) + agent.children_seconds,
            sibling_seconds=total_seconds(p for p in siblings if p.core in self.cores),
            stack_seconds=sum(p.seconds for p in stack if p.core in self.cores),
            others=others,
            cores=_cores(self.cores),
            major_faults=sum(table[pid].major_faults for pid in own),
            throttled_seconds=throttled_seconds(),
            node_pressure=_pressures(
                text_of(_PROC / f"pressure/{resource}").split() for resource in _RESOURCES
            ),
            pod_pressure=_pressures(
                next(of_groups(Path("/"), ("", f"{resource}.pressure")), [])
                for resource in _RESOURCES
            ),
            hertz=sum(frequencies) / len(frequencies) if frequencies else None,
            gpu_limits=self.gpus.limits(),
        )

    def _leader(self, process: KernelProcess) -> int:
        """Return the process whose environment shows whether a process belongs to the run.

        Agents start a session for each rank. The ranks of an external job may share a session.
        """
        return process.pid if self._root else process.session


def process_table() -> Mapping[int, KernelProcess]:
    """Return the processes of this machine by their numbers."""
    table = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal():
            with suppress(OSError):  # the process has ended
                process = parse_process(read_proc(f"{entry.path}/stat"))
                table[process.pid] = process
    return table


def parse_process(line: bytes) -> KernelProcess:
    """Read a process's line of /proc/PID/stat."""
    # The second field is the name in brackets, which may contain any character.
    head, _, tail = line.rpartition(b")")
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    return KernelProcess(
        pid=int(pid),
        parent=int(fields[1]),
        session=int(fields[3]),
        name=name.decode(errors="replace").partition("/")[0],
        began=int(fields[19]),
        seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
        children_seconds=(int(fields[13]) + int(fields[14])) / _TICKS,
        major_faults=int(fields[9]) + int(fields[10]),
        core=int(fields[36]),
    )


def descendants_in(table: Mapping[int, KernelProcess], ancestor: int) -> Set[int]:
    """Return the descendants of a process in a table."""
    descendants: set[int] = set()
    newest = {ancestor}
    while newest := {pid for pid, entry in table.items() if entry.parent in newest} - descendants:
        descendants |= newest
    return descendants


def total_seconds(processes: Iterable[KernelProcess]) -> float:
    """Return the CPU time of processes, and of ended children that they have waited for."""
    return sum(process.seconds + process.children_seconds for process in processes)


def _threads(pids: Iterable[int]) -> Iterator[tuple[tuple[int, int], KernelThread]]:
    """Yield the threads of processes with their keys; nothing if the kernel has no schedstat."""
    last_field = b"nonvoluntary_ctxt_switches:"
    for pid in pids:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - in half the time
                with suppress(OSError, ValueError):
                    folder = f"/proc/{pid}/task/{thread}"
                    running, waiting, _ = map(int, read_proc(f"{folder}/schedstat").split())
                    switches = int(read_proc(f"{folder}/status").rpartition(last_field)[2])
                    yield (pid, int(thread)), KernelThread(running / 1e9, waiting / 1e9, switches)


def _cores(cores: Set[int]) -> Cores | None:
    """Read the counts of cores from /proc/stat (proc_stat(5)); None if a core is missing."""
    busy = stolen = 0
    missing = {f"cpu{core}".encode() for core in cores}
    with suppress(OSError):
        for line in read_proc("/proc/stat").splitlines():
            name, *ticks = line.split()
            if name in missing:
                missing.remove(name)
                busy += sum(map(int, ticks[:3]))  # user, nice, system
                stolen += int(ticks[7])
    return None if missing else Cores(busy / _TICKS, stolen / _TICKS)


def throttled_seconds(root: Path = Path("/")) -> float | None:
    """Return the seconds for which the limit of this control group kept it from its cores.

    None without such a count.
    """
    for controller, name, unit in (("", "throttled_usec", 1e6), ("cpu", "throttled_time", 1e9)):
        for words in of_groups(root, (controller, "cpu.stat")):
            if name in words:
                return int(words[words.index(name) + 1]) / unit
    return None


def _pressures(texts: Iterable[list[str]]) -> dict[str, float]:
    """Read the totals of ``some`` in files of pressure, in the order of the resources."""
    pressures = {}
    for resource, words in zip(_RESOURCES, texts, strict=True):
        if words[:1] == ["some"]:
            pressures[resource] = int(words[4].removeprefix("total=")) / 1e6
    return pressures
