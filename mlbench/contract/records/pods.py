"""What runs run on, and what they may ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.contract.records.base import Record, Time
from mlbench.contract.records.runs import Goal
from mlbench.contract.stated import Setting

AgentState = Literal["idle", "running", "exited"]


@dataclass(frozen=True)
class Pod(Record):
    """A worker pod."""

    name: str
    labels: str
    """A Python dictionary's text, as MLBench wrote it."""
    phase: str
    """As Kubernetes names it, such as ``Running``."""
    ip: str
    node: str = ""
    run_id: int | None = None
    """The active run that it works for."""
    rank: int | None = None
    """Its rank in that run."""
    cpus: tuple[int, ...] = ()
    """The cores that it has for that run; empty where the pod has its own."""
    state: AgentState | None = None
    """As its agent said last; None before its first poll."""
    fork_server: bool = False
    """Whether a process that has imported PyTorch is ready to be forked for an official task."""
    seen_at: Time | None = None
    """When its agent was last heard of."""


@dataclass(frozen=True)
class Option(Record):
    """An option of an official task, for ``args`` of a run."""

    name: str
    default: Setting
    choices: tuple[Setting, ...]
    """The values to choose from; empty for any number or text."""
    help: str


@dataclass(frozen=True)
class Benchmark(Record):
    """An official task."""

    name: str
    """The value of ``benchmark`` of a run."""
    description: str
    goal: Goal | None = None
    """The default goal; None for a task without one."""
    light_goal: Goal | None = None
    """The goal with `light_target`; None if there is none."""
    has_light_target: bool = False
    """Whether a run may set ``light_target``: a goal that is reached sooner."""
    takes_seed: bool = False
    """Whether a run may set ``seed``."""
    takes_gpu: bool = False
    """Whether a run may set ``gpu_enabled``."""
    backends: tuple[str, ...] = ()
    """Possible values of a run's ``backend``; empty where its ranks do not communicate."""
    rules: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    """The values that its settings may have in the closed division, the usual one first."""
    options: tuple[Option, ...] = ()
    """What a run's ``args`` may set."""
    images: tuple[str, ...] = ()
    """MLBench's images of it, which ``image_name`` of a run may name too, with any tag."""


@dataclass(frozen=True)
class BandwidthLimit(Record):
    """How much bandwidth a run may ask for."""

    most: float | None
    """Mbit/s that a worker may send; ``null``: any number."""


@dataclass(frozen=True)
class RunLimits(Record):
    """What a run may ask for."""

    workers: int
    """The most of them."""
    cpus: float
    """The most cores of a worker."""
    whole_cpus: bool
    """Whether a worker gets whole cores only."""
    bandwidth: BandwidthLimit | None
    """``null`` where it cannot be limited."""
    gpus: int
    """GPUs of a worker of a run that asks for them; 0 where there are none."""
    latency: bool = False
    """Whether it may ask for latency and loss."""


@dataclass(frozen=True)
class Place(Record):
    """Another web page to look at, by the URL that a browser can reach."""

    url: str


@dataclass(frozen=True)
class Info(Record):
    """An installation."""

    version: str
    pool: Literal["local", "kubernetes"]
    """Where the workers are."""
    database: Literal["sqlite", "postgresql"]
    """Where runs are stored."""
    workers: int
    """How many idle ones are kept."""
    limits: RunLimits
    grafana: Place | None
    prometheus: Place | None
    """That of a local stack; a cluster's is not for browsers."""

    @property
    def grafana_url(self) -> str | None:
        """Grafana, as a browser reaches it; None where there is none."""
        return self.grafana.url if self.grafana else None

    @property
    def prometheus_url(self) -> str | None:
        """The Prometheus of a local stack; None elsewhere."""
        return self.prometheus.url if self.prometheus else None
