"""What a run's result depends on: code, machines, limits, versions, and what disturbed it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlbench.contract.records.base import Record, Time
from mlbench.contract.records.runs import Division, Goal, NotRecorded
from mlbench.contract.runspec import Resources
from mlbench.contract.stated import Setting


@dataclass(frozen=True)
class GitState(Record):
    """The repository that holds a run's code."""

    commit: str
    dirty: bool | None = None
    """Whether it has changes that the commit does not; None where that is unknown."""
    root: str | None = None
    """Its folder."""


@dataclass(frozen=True, kw_only=True)
class Machine(Record):
    """The machine and software of some ranks, as their agents state them; None where unknown.

    Several machines that differ in nothing but their `hostname` are one, whose `hostname` is None.
    """

    ranks: tuple[int, ...] = ()
    hostname: str | None = None
    os: str | None = None
    """The distribution and its kernel."""
    architecture: str | None = None
    cpu_model: str | None = None
    processor: Mapping[str, str] = field(default_factory=dict)
    """More of it, as far as the kernel tells: generation, clock, governor, turbo, smt, caches,
    numa_nodes, hypervisor."""
    cpus: int | None = None
    """Cores that the worker may run on."""
    cpu_limit: float | None = None
    """How many cores' worth of time it may use; None if that is not limited."""
    bandwidth_limit: float | None = None
    """How many Mbit/s it may send; None if that is not limited."""
    latency_ms: float | None = None
    """By how many ms what it sends is held back; None: by none."""
    loss_percent: float | None = None
    """The share of what it sends that is thrown away; None: none."""
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """How many of them it may use; None if that is not limited."""
    gpus: tuple[str, ...] = ()
    """The models of its GPUs, one entry each."""
    gpu_driver: str | None = None
    python: str | None = None
    """The version of the Python that the command begins with or its script names.

    For other commands, of the agent's.
    """
    mlbench: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """The distributions that this Python has installed, with their versions."""
    git: GitState | None = None
    """None where the code lies in no repository."""


@dataclass(frozen=True, kw_only=True)
class StatedMachine(Machine):
    """A machine, and its clock when the process was about to start."""

    is_forked: bool = False
    """Whether the process was forked from one that had imported PyTorch."""
    clock_offset_seconds: float | None = None
    """By how much it was ahead of the master's."""
    clock_uncertainty_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Disturbance(Record):
    """What kept a rank from its cores, as the kernel counts it over the rank's training.

    Training is what follows the first line that its process recorded; all that it did, if it
    recorded none. What is unknown is None, or missing.
    """

    seconds: float
    """How long it was measured."""
    cores: int
    """How many cores the rank may run on."""
    waiting_seconds: float
    """The part of these seconds in which it waited for a core that other programs had.

    At most the part of its cores' time that others had: in the rest, threads of its own run waited
    for each other.
    """
    own_waiting_seconds: float
    """The part in which it waited for a core that its own run had, or for its limit's sake."""
    others_core_seconds: float | None
    """How long others used its cores, summed over the cores; on a cluster, other ranks too."""
    top: Mapping[str, float]
    """The same by program, of those that used most; empty on a cluster."""
    stolen_seconds: float | None
    """The part in which the hypervisor had a core of the rank, the mean over its cores."""
    throttled_seconds: float | None
    """For how long the limit of its own container kept it from its cores, summed over the cores."""
    node_pressure_seconds: Mapping[str, float]
    """For how long some process waited for ``cpu``, ``memory`` and ``io``."""
    pod_pressure_seconds: Mapping[str, float]
    """The same of the pod's own processes."""
    major_faults: int
    """How often its processes waited for a page from a disk."""
    involuntary_switches: int
    """How often its threads lost their core to another thread."""
    core_hertz: float | None
    """The mean frequency of its cores."""
    gpu_limited_seconds: Mapping[str, float]
    """For how long something kept a GPU's clock down, by what it was, such as ``heat``."""
    profiled: tuple[tuple[float, float], ...] = ()
    """From when to when it was profiled, in Unix seconds by the clock of its worker."""
    stack_waiting_seconds: float | None = None
    """The part in which it waited for a core that MLBench's own processes had.

    None in records of earlier versions, whose ``waiting_seconds`` have it.
    """
    stopped: tuple[tuple[float, float], ...] = ()
    """From when to when a process was stopped by a signal, or its machine slept.

    Unix seconds by the clock of its worker. Injected failures are not among them.
    """

    @property
    def contention_share(self) -> float:
        """Share of the time in which it waited for a core that processes outside its run had."""
        return (self.waiting_seconds + (self.stack_waiting_seconds or 0.0)) / self.seconds


@dataclass(frozen=True)
class RankOnMachine(Record):
    """Where a rank ran."""

    rank: int
    pod: str
    hostname: str | None
    image: str | None
    """The image that its pod ran, with its digest; None where it ran none."""
    cpus: tuple[int, ...]
    """The cores that it was bound to; empty if it was to none."""
    clock_offset_seconds: float | None
    """By how much the worker's clock was ahead of the master's when the rank was started."""
    clock_uncertainty_seconds: float | None
    """The offset is right to within this: half the shortest round trip."""
    is_forked: bool = False
    """Whether its process was forked from one that had imported PyTorch."""


@dataclass(frozen=True, kw_only=True)
class Limits(Resources, Record):
    """The resources and limits of a run."""

    num_workers: int
    light_target: bool
    max_restarts: int
    deadline_seconds: float | None


@dataclass(frozen=True)
class Versions(Record):
    """Versions of the installation; each machine states its own."""

    mlbench: str
    """The master's."""


@dataclass(frozen=True)
class Manifest(Record):
    """Everything that a run's result depends on."""

    run_id: int
    name: str
    division: Division
    """Closed for an official task, open for a command of one's own."""
    departures: tuple[str, ...]
    """Where a run of the closed division leaves the rules of its task, a sentence each."""
    benchmark: str
    image: str
    command: str
    working_dir: str | None
    args: Mapping[str, str]
    run_all_nodes: bool
    backend: str
    seed: int | None
    settings: Mapping[str, Setting] | None
    """The settings of the task, as it states them; None until it does."""
    goal: Goal | None
    data: Mapping[str, Setting]
    """The settings that say what it was trained on: all whose names begin with `data`."""
    limits: Limits
    attempts: int
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    versions: Versions
    machines: tuple[Machine, ...]
    """Of the latest attempt; empty until its ranks have started."""
    ranks: tuple[RankOnMachine, ...]
    launcher: str = ""
    """Who started its processes; empty where MLBench did."""
    not_recorded: NotRecorded | None = None
    """Counts of data that the run's record lacks; None if nothing is known to be missing."""
