"""The manifest of a run: everything that its result depends on, and what disturbed it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlbench.contract.records.record import Record, Time
from mlbench.contract.records.runs import Division, NotRecorded, Target
from mlbench.contract.reported_settings import Setting
from mlbench.contract.runspec import Resources


@dataclass(frozen=True)
class GitState(Record):
    """The state of the Git repository that holds a run's code."""

    commit: str
    dirty: bool | None = None
    """Whether there are uncommitted changes; None if unknown."""
    root: str | None = None
    """Root folder of the repository; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class Machine(Record):
    """The machine and the software of some ranks, as their agents report them; None if unknown.

    Machines that differ only in their ``hostname`` are listed as one, whose ``hostname`` is None.
    """

    ranks: tuple[int, ...] = ()
    """Ranks that ran on the machine."""
    hostname: str | None = None
    """Host name; None if unknown, or if several machines are listed as one."""
    os: str | None = None
    """Distribution and kernel version."""
    architecture: str | None = None
    """Processor architecture, such as ``x86_64``."""
    cpu_model: str | None = None
    """Model name of the processor."""
    processor: Mapping[str, str] = field(default_factory=dict)
    """Further properties of the processor that the kernel reports.

    Possible keys: generation, clock, governor, turbo, smt, caches, numa_nodes, hypervisor.
    """
    cpus: int | None = None
    """Number of cores that the worker may run on."""
    cpu_limit: float | None = None
    """CPU limit of the worker, in cores; None if unlimited."""
    bandwidth_limit: float | None = None
    """Limit on the worker's outgoing bandwidth, in Mbit/s; None if unlimited."""
    latency_ms: float | None = None
    """Latency added to the worker's outgoing packets, in milliseconds; None if none is added."""
    loss_percent: float | None = None
    """Percentage of the worker's outgoing packets that is dropped; None if none is dropped."""
    memory_bytes: int | None = None
    """Memory of the machine, in bytes."""
    memory_limit_bytes: int | None = None
    """Memory limit of the worker, in bytes; None if unlimited."""
    gpus: tuple[str, ...] = ()
    """Model name of each GPU."""
    gpu_driver: str | None = None
    """Version of the GPU driver; None if unknown or without GPUs."""
    python: str | None = None
    """Version of the Python interpreter that the command or its script's first line names.

    For other commands, the version of the agent's interpreter.
    """
    mlbench: str | None = None
    """Version of MLBench on the worker."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of the distributions that are installed for this interpreter, by name."""
    git: GitState | None = None
    """Git repository of the code; None if the code is not in a repository."""
    code: str | None = None
    """Source file of the command with a digest of its code, such as ``train.py 3f2a91c8b0d1``.

    The code is the file and the modules that it imports from its folder, or the scripts that a
    shell script names. None without a file, and for a notebook.
    """


@dataclass(frozen=True, kw_only=True)
class ReportedMachine(Machine):
    """A machine as an agent reports it, with its clock offset just before the process starts."""

    is_forked: bool = False
    """Whether the process is forked from an interpreter that has already imported PyTorch."""
    clock_offset_seconds: float | None = None
    """Seconds by which the worker's clock is ahead of the master's; None if unknown."""
    clock_uncertainty_seconds: float | None = None
    """Maximum error of the clock offset, in seconds; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class Interference(Record):
    """CPU contention and other interference during a rank's training, from kernel counters.

    Training begins with the first line that the rank's process recorded. If it recorded none, the
    measurement covers the process lifetime. Unknown values are None, or missing from mappings.
    """

    seconds: float
    """Duration of the measurement, in seconds."""
    cores: int
    """Number of cores that the rank may run on."""
    waiting_seconds: float
    """Seconds of CPU contention: a thread was ready, but another program held the core.

    At most the share of the cores' time that other programs used. Any further wait is for other
    threads of the same run, and is not counted here.
    """
    self_contention_seconds: float
    """Seconds of self-contention: the rank waited for threads of its own run, or was throttled."""
    others_core_seconds: float | None
    """Core seconds that other processes used on the rank's cores; None if unknown.

    On a cluster, this includes other ranks.
    """
    top: Mapping[str, float]
    """Core seconds of the programs that used the rank's cores most; empty on a cluster."""
    stolen_seconds: float | None
    """Seconds in which the hypervisor held a core of the rank (steal time), mean over its cores.

    None if unknown.
    """
    throttled_seconds: float | None
    """Core seconds for which the container's CPU limit throttled the rank; None if unknown."""
    node_pressure_seconds: Mapping[str, float]
    """Seconds in which a process of the node waited for ``cpu``, ``memory`` or ``io`` (PSI)."""
    pod_pressure_seconds: Mapping[str, float]
    """Seconds in which a process of the pod waited for ``cpu``, ``memory`` or ``io`` (PSI)."""
    major_faults: int
    """Number of major page faults: waits for a page from disk."""
    involuntary_switches: int
    """Number of involuntary context switches of the rank's threads."""
    core_hertz: float | None
    """Mean frequency of the rank's cores, in hertz; None if unknown."""
    gpu_limited_seconds: Mapping[str, float]
    """Seconds for which a GPU's clock was throttled, by reason, such as ``heat``."""
    profiled: tuple[tuple[float, float], ...] = ()
    """Start and end of each period in which the rank was profiled.

    Unix seconds by the worker's clock.
    """
    stack_waiting_seconds: float | None = None
    """Seconds in which the rank waited for a core that MLBench's own processes held.

    None in records of earlier versions, in which ``waiting_seconds`` includes them.
    """
    stopped: tuple[tuple[float, float], ...] = ()
    """Start and end of each period in which a signal stopped a process, or its machine slept.

    Unix seconds by the worker's clock. Injected faults are left out.
    """
    ready_thread_seconds: float | None = None
    """Seconds that threads of the rank's busiest process ran or waited for a core.

    Summed over its threads. None in records of earlier versions.
    """

    @property
    def contention_share(self) -> float:
        """Share of the time that the rank waited for processes outside its run, from 0 to 1."""
        return (self.waiting_seconds + (self.stack_waiting_seconds or 0.0)) / self.seconds


@dataclass(frozen=True)
class RankOnMachine(Record):
    """The placement of a rank: its pod, machine and cores."""

    rank: int
    pod: str
    """Name of the worker pod."""
    hostname: str | None
    """Host name of the machine; None if unknown."""
    image: str | None
    """Container image of the pod, with its digest; None for a worker without a container."""
    cpus: tuple[int, ...]
    """Numbers of the cores that the rank was pinned to; empty if it was not pinned."""
    clock_offset_seconds: float | None
    """Seconds by which the worker's clock was ahead of the master's at the start of the rank.

    None if unknown.
    """
    clock_uncertainty_seconds: float | None
    """Maximum error of the clock offset, in seconds: half the shortest round trip."""
    is_forked: bool = False
    """Whether the process was forked from an interpreter that had already imported PyTorch."""


@dataclass(frozen=True, kw_only=True)
class Limits(Resources, Record):
    """The resources and limits of a run."""

    num_workers: int
    light_target: bool
    max_restarts: int
    deadline_seconds: float | None


@dataclass(frozen=True)
class Versions(Record):
    """Versions of the installation. Each machine reports its own versions."""

    mlbench: str
    """Version of the master."""


@dataclass(frozen=True)
class Manifest(Record):
    """Everything that a run's result depends on."""

    run_id: int
    name: str
    """Name that the user gave the run."""
    division: Division
    """``closed`` for a benchmark with its fixed rules, ``open`` for your own code."""
    rule_violations: tuple[str, ...]
    """Rule violations of a run in the closed division, a sentence each."""
    benchmark: str
    """Name of the benchmark; empty for your own code."""
    image: str
    """Container image of your own code; empty for a benchmark."""
    command: str
    """Command of your own code; empty for a benchmark."""
    working_dir: str | None
    """Folder on the workers that the command starts in; None for the workers' default."""
    args: Mapping[str, str]
    """Options of the benchmark that were set, by name."""
    run_all_nodes: bool
    """Whether every rank runs the command; otherwise rank 0 alone."""
    backend: str
    """Communication backend, such as ``gloo``; empty if none was set."""
    seed: int | None
    """Random seed; None if none was set."""
    settings: Mapping[str, Setting] | None
    """Settings that the training process reported; None until it has reported them."""
    target: Target | None
    """Target of the run; None without a target."""
    data: Mapping[str, Setting]
    """Settings that describe the training data: all whose names begin with ``data``."""
    limits: Limits
    attempts: int
    """Number of attempts so far."""
    created_at: Time
    started_at: Time | None
    """Start of the run; None before it starts."""
    finished_at: Time | None
    """End of the run; None before it ends."""
    versions: Versions
    machines: tuple[Machine, ...]
    """Machines of the latest attempt; empty until its ranks have started."""
    ranks: tuple[RankOnMachine, ...]
    """Placement of each rank of the latest attempt; empty before the first attempt."""
    launcher: str = ""
    """Launcher of an external job, such as ``slurm``; empty if MLBench started the processes."""
    not_recorded: NotRecorded | None = None
    """Counts of data that the run's record lacks; None if nothing is known to be missing."""
