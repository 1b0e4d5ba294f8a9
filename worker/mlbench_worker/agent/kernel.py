"""What the kernel counts of a rank's processes, its cores and its machine, as read at one moment.

The rank's processes are all that descend from the agent, as it adopts those whose parent has ended;
of a job that another program started, all that descend from the process beside which it runs.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlbench.local.proc import read_proc
from mlbench_worker.agent.files import text_of
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.machine import of_groups

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_RESOURCES = ("cpu", "memory", "io")
_INVOLUNTARY = b"nonvoluntary_ctxt_switches:"
# The frequencies of more cores take too long to read.
_MOST_FREQUENCIES = 8


@dataclass(frozen=True, slots=True)
class Process:
    """A line of the process table: proc_pid_stat(5)."""

    pid: int
    parent: int
    session: int
    name: str
    """Of a kernel's thread only what it is, such as kworker, as the rest changes."""
    began: int
    """When, which tells it from a later process with the same number."""
    seconds: float
    """CPU time."""
    children_seconds: float
    """CPU time of the children that it has waited for."""
    major_faults: int
    """Of these children too."""
    core: int
    """The core that it was on last."""


@dataclass(frozen=True, slots=True)
class Thread:
    """What the scheduler counts of a thread."""

    running_seconds: float = 0.0
    waiting_seconds: float = 0.0
    """On a core's queue, while another thread had the core."""
    involuntary_switches: int = 0
    """How often it lost its core to another thread."""


@dataclass(frozen=True)
class Cores:
    """What some cores have done, summed over them."""

    busy_seconds: float
    """In processes; interrupts are left out."""
    stolen_seconds: float
    """Taken by the hypervisor for other machines."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A moment's counts; None where the machine does not tell."""

    at: float
    """By the monotonic clock."""
    threads: Mapping[tuple[int, int], Thread]
    """The living threads of the rank, by process and thread."""
    own_seconds: float
    """CPU time of the rank's processes, also of those that have ended."""
    sibling_seconds: float
    """CPU time of the run's other ranks on the same cores, as far as they can be seen."""
    stack_seconds: float
    """CPU time of MLBench's own processes on the same cores; 0 without a stack on this machine."""
    others: Mapping[int, Process]
    """The processes that are neither of the run nor of the stack, as far as they can be seen."""
    cores: Cores | None
    major_faults: int
    throttled_seconds: float | None
    node_pressure: Mapping[str, float]
    """Seconds in which some process waited for a resource: cpu, memory, io."""
    pod_pressure: Mapping[str, float]
    hertz: float | None
    """The mean frequency of the cores."""
    gpu_limits: Set[str]
    """What keeps the clock of a GPU down."""


class Kernel:
    """Reads the counts of a rank that runs on given cores."""

    def __init__(
        self,
        mark: str,
        cores: Set[int],
        root: int | None = None,
        supervisor_lock: Path | None = None,
    ) -> None:
        """Connect to the driver of GPUs, if there is one, which may take seconds.

        ``mark`` is what the environments of all processes of the run have, as ``NAME=VALUE``; the
        rank's descend from ``root``, by default from this one. ``supervisor_lock`` is the file
        with the number of the process that started the stack on this machine, if there is one.
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
        of_run = set(filter(self._is_of_run, set(map(self._leader, foreign))))
        siblings = (
            process
            for process in foreign
            if self._leader(process) in of_run and process.core in self.cores
        )
        others = [one for one in foreign if self._leader(one) not in of_run]
        stack = self._of_stack(table, others)
        on_cores = (one for one in others if one.pid in stack and one.core in self.cores)
        return Snapshot(
            at=time.monotonic(),
            threads=dict(_threads(own)),
            own_seconds=total_seconds(table[pid] for pid in own) + agent.children_seconds,
            sibling_seconds=total_seconds(siblings),
            stack_seconds=sum(one.seconds for one in on_cores),
            others={one.pid: one for one in others if one.pid not in stack},
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
            hertz=_hertz(sorted(self.cores)[:_MOST_FREQUENCIES]),
            gpu_limits=self.gpus.limits(),
        )

    def _of_stack(self, table: Mapping[int, Process], others: Iterable[Process]) -> Set[int]:
        """Return MLBench's own processes among others: the stack's, and the ``mlbench`` commands.

        Each child of the supervisor leads the session of its service. The processes of other runs
        lead sessions of their own, so they are not the stack's.
        """
        services = {pid for pid, one in table.items() if self._supervisor == one.parent != 0}
        return {
            one.pid
            for one in others
            if one.session in services or one.pid == self._supervisor or one.name == "mlbench"
        }

    def _leader(self, one: Process) -> int:
        """Return the process whose environment tells if one is of the run.

        Agents start a session for each rank; others may start all ranks in that of a user.
        """
        return one.pid if self._root else one.session

    def _is_of_run(self, pid: int) -> bool:
        """Check by the environment of a process if it is of the same run."""
        try:
            return self._mark in b"\0%b" % read_proc(f"/proc/{pid}/environ")
        except OSError:  # it is gone, or of another user
            return False


def process_table() -> Mapping[int, Process]:
    """Return the processes of this machine by their numbers."""
    table = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal():
            with suppress(OSError):  # it is gone
                process = parse_process(read_proc(f"{entry.path}/stat"))
                table[process.pid] = process
    return table


def parse_process(line: bytes) -> Process:
    """Read a process's line of /proc/PID/stat."""
    # The name, second in the line, stands in brackets and may hold any character.
    head, _, tail = line.rpartition(b")")
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    return Process(
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


def descendants_in(table: Mapping[int, Process], ancestor: int) -> Set[int]:
    """Return the processes of a table that descend from one."""
    found: set[int] = set()
    newest = {ancestor}
    while newest := {pid for pid, one in table.items() if one.parent in newest} - found:
        found |= newest
    return found


def total_seconds(processes: Iterable[Process]) -> float:
    """Return the CPU time of processes, and of the children that they have waited for."""
    return sum(process.seconds + process.children_seconds for process in processes)


def _threads(pids: Iterable[int]) -> Iterator[tuple[tuple[int, int], Thread]]:
    """Yield the threads of processes, each with its key; none where schedstat is not counted."""
    for pid in pids:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - in half the time
                with suppress(OSError, ValueError):
                    folder = f"/proc/{pid}/task/{thread}"
                    running, waiting, _ = map(int, read_proc(f"{folder}/schedstat").split())
                    switches = int(read_proc(f"{folder}/status").rpartition(_INVOLUNTARY)[2])
                    yield (pid, int(thread)), Thread(running / 1e9, waiting / 1e9, switches)


def _cores(cores: Set[int]) -> Cores | None:
    """Read what cores have done from /proc/stat (proc_stat(5)); None if it lacks one of them."""
    busy = stolen = 0
    left = {f"cpu{core}".encode() for core in cores}
    with suppress(OSError):
        for line in read_proc("/proc/stat").splitlines():
            name, *ticks = line.split()
            if name in left:
                left.remove(name)
                busy += sum(map(int, ticks[:3]))  # user, nice, system
                stolen += int(ticks[7])
    return None if left else Cores(busy / _TICKS, stolen / _TICKS)


def throttled_seconds(root: Path = Path("/")) -> float | None:
    """Return for how long this control group was kept from its cores by its own limit."""
    for controller, name, unit in (("", "throttled_usec", 1e6), ("cpu", "throttled_time", 1e9)):
        for words in of_groups(root, (controller, "cpu.stat")):
            if name in words:
                return int(words[words.index(name) + 1]) / unit
    return None


def _pressures(texts: Iterable[list[str]]) -> dict[str, float]:
    """Read the totals of ``some`` in files of pressure, in the order of the resources."""
    found = {}
    for resource, words in zip(_RESOURCES, texts, strict=True):
        if words[:1] == ["some"]:
            found[resource] = int(words[4].removeprefix("total=")) / 1e6
    return found


def _hertz(cores: Iterable[int]) -> float | None:
    folder = "sys/devices/system/cpu"
    found = [text_of(Path(f"/{folder}/cpu{core}/cpufreq/scaling_cur_freq")) for core in cores]
    known = [float(text) * 1000 for text in found if text]
    return sum(known) / len(known) if known else None
