"""Worker pods, benchmarks, and the limits of an installation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlbench.contract.people import Role
from mlbench.contract.records.record import Record, Time
from mlbench.contract.records.runs import Target
from mlbench.contract.reported_settings import Setting

AgentState = Literal["idle", "running", "exited"]


@dataclass(frozen=True)
class Pod(Record):
    """A worker pod."""

    name: str
    labels: str
    """Labels of the pod, as the text of a Python dictionary: the format of the original MLBench."""
    phase: str
    """Phase of the pod in Kubernetes' terms, such as ``Running``."""
    ip: str
    node: str = ""
    """Name of the node; empty if unknown."""
    run_id: int | None = None
    """Active run that the pod works for; None if it is idle."""
    rank: int | None = None
    """Rank of the pod in that run; None if it is idle."""
    cpus: tuple[int, ...] = ()
    """Numbers of the cores that the pod may use for that run; empty if it has its own cores."""
    state: AgentState | None = None
    """State that the pod's agent reported last; None before its first poll."""
    fork_server: bool = False
    """Whether an interpreter that has imported PyTorch is ready to be forked for a benchmark."""
    seen_at: Time | None = None
    """Time of the agent's last heartbeat; None before the first one."""


@dataclass(frozen=True)
class BenchmarkOption(Record):
    """An option of a benchmark, which a run sets in ``args``."""

    name: str
    default: Setting
    choices: tuple[Setting, ...]
    """Allowed values; empty if any number or string is allowed."""
    help: str
    """Description of the option in a sentence."""


@dataclass(frozen=True)
class Benchmark(Record):
    """A benchmark that a run can use."""

    name: str
    """Name of the benchmark: the value of a run's ``benchmark``."""
    description: str
    target: Target | None = None
    """Default target; None for a benchmark without a target."""
    light_target: Target | None = None
    """Target of a run with ``light_target``; None if there is no light target."""
    has_light_target: bool = False
    """Whether a run may set ``light_target``, a target that is easier to reach."""
    takes_seed: bool = False
    """Whether a run may set ``seed``."""
    takes_gpu: bool = False
    """Whether a run may set ``gpu_enabled``."""
    backends: tuple[str, ...] = ()
    """Allowed values of a run's ``backend``; empty if the ranks do not communicate."""
    rules: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    """Values that a setting may have in the closed division, by setting; the usual value first."""
    options: tuple[BenchmarkOption, ...] = ()
    """Options that a run may set in ``args``."""
    images: tuple[str, ...] = ()
    """MLBench's images of the benchmark, which a run may name in ``image_name`` with any tag."""


@dataclass(frozen=True)
class BandwidthLimit(Record):
    """The bandwidth that a run may request."""

    most: float | None
    """Maximum outgoing bandwidth of a worker, in Mbit/s; None without a maximum."""


@dataclass(frozen=True)
class RunLimits(Record):
    """The resources that a run may request."""

    workers: int
    """Maximum number of workers per run."""
    cpus: float
    """Maximum number of cores per worker."""
    whole_cpus: bool
    """Whether the number of cores per worker must be an integer."""
    bandwidth: BandwidthLimit | None
    """Bandwidth that a run may request; None if this installation cannot limit bandwidth."""
    gpus: int
    """Number of GPUs per worker for a run that requests GPUs; 0 if there are none."""
    latency: bool = False
    """Whether a run may request latency and packet loss."""


@dataclass(frozen=True)
class Link(Record):
    """A web page of another service."""

    url: str
    """URL that a browser can reach."""


@dataclass(frozen=True)
class PrometheusStorage(Record):
    """Prometheus and its time series."""

    version: str
    """Version of Prometheus."""
    retention: str
    """Limit on age or size, in Prometheus's words, such as ``15d`` or ``15d or 10GiB``."""
    bytes: int | None
    """Size of the stored series, in bytes; None if Prometheus does not scrape itself."""


@dataclass(frozen=True)
class DatabaseStorage(Record):
    """The database of runs."""

    kind: Literal["sqlite", "postgresql"]
    bytes: int
    """Size of the database, in bytes."""


@dataclass(frozen=True)
class ArchiveStorage(Record):
    """The archives of ended runs."""

    archives: int
    """Number of archives."""
    bytes: int
    """Size of all archives, in bytes."""
    is_remote: bool
    """Whether the archives are in an object store, such as S3, instead of a folder."""


@dataclass(frozen=True)
class Storage(Record):
    """Amount of data that an installation has stored."""

    prometheus: PrometheusStorage | None
    """Prometheus; None if it does not respond."""
    database: DatabaseStorage
    archives: ArchiveStorage | None
    """Archives; None if their folder or object store does not respond."""
    recorded_samples: int
    """Number of samples that the workers of all counted runs recorded, without imported runs."""
    missing_samples: int
    """Number of these samples that are neither in Prometheus nor in the database."""


@dataclass(frozen=True)
class Info(Record):
    """An installation of MLBench."""

    version: str
    pool: Literal["local", "kubernetes"]
    """Environment in which the workers run."""
    database: Literal["sqlite", "postgresql"]
    """Database in which runs are stored."""
    workers: int
    """Number of idle workers that are kept ready."""
    limits: RunLimits
    grafana: Link | None
    """Grafana; None without Grafana."""
    prometheus: Link | None
    """Prometheus of a local stack; None on a cluster, where browsers cannot reach Prometheus."""
    user: str = ""
    """User who sent the request; empty if unknown."""
    role: Role = "admin"
    """Role of the request's token."""

    @property
    def grafana_url(self) -> str | None:
        """URL of Grafana for a browser; None without Grafana."""
        return self.grafana.url if self.grafana else None

    @property
    def prometheus_url(self) -> str | None:
        """URL of a local stack's Prometheus; None on a cluster."""
        return self.prometheus.url if self.prometheus else None
