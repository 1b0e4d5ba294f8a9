"""The master's settings: one dataclass, read from the environment once."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

from mlbench.contract import names
from mlbench.contract.errors import MLBenchError
from mlbench.local.home import Home


class SettingsError(MLBenchError):
    """An environment variable is missing or wrong."""


PoolKind = Literal["local", "kubernetes"]

# What is always this machine.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Limits:
    """What a run may ask for. The API refuses what the pool could not give."""

    workers: int = 16
    """Most workers of a run."""
    cpus: float = len(os.sched_getaffinity(0))
    """Most cores of a worker."""
    bandwidth: float = 0.0
    """Mbit/s that a worker may send at most, and by default; 0: as much as it can."""
    gpus: int = 0
    """GPUs of a worker."""
    series: int = 10_000
    """Most series of a run or pod."""
    backends: tuple[str, ...] = ("gloo", "nccl")
    """What PyTorch can communicate with on the workers; the releases on PyPI have no mpi."""
    pool: PoolKind = "local"
    """Local workers get whole cores."""
    no_bandwidth: str = ""
    """Why the bandwidth of workers cannot be limited; empty if it can."""
    no_latency: str = ""
    """Why what they send can be neither late nor lost; empty if it can."""
    framework_images: Mapping[str, str] = field(default_factory=dict)
    """In a cluster, the workers' image for each framework that has one, besides PyTorch."""
    always_queue: bool = False
    """Whether a run waits for active ones even if its order does not say so."""
    concurrent_runs: int = 1
    """How many runs go on at a time, where there is room for them."""
    join_runs: int = 200
    """Maximum number of active runs of a joining token."""
    join_ranks: int = 4096
    """Maximum number of ranks in the active runs of a joining token."""
    join_rate: int = 60
    """Maximum number of runs that a joining token orders in a minute."""


@dataclass(frozen=True)
class ClusterSettings:
    """Where in a Kubernetes cluster the worker pods belong, and what they are."""

    manifest: Path
    """The file that says what worker pods are, as JSON."""
    namespace: str
    owner: str
    """The Deployment that the workers belong to, and go with."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "ClusterSettings":
        """Read the settings, which the controller alone needs.

        Raises:
            SettingsError: a variable is missing; the text names it.
        """
        manifest = Path(_required(environ, names.ENV_WORKER_MANIFEST))
        namespace, owner = (_required(environ, n) for n in (names.ENV_NAMESPACE, names.ENV_OWNER))
        return cls(manifest, namespace, owner)


@dataclass(frozen=True)
class GrafanaSettings:
    """The Grafana that the controller pushes the dashboards to."""

    url: str
    """The address of its first page."""
    token: str
    """A service account's, or ``user:password``."""
    prometheus_url: str
    """How it reaches Prometheus."""
    scrape_interval: str = names.DEFAULT_SCRAPE_INTERVAL
    """Of that Prometheus, as Grafana writes it, such as ``2s``."""


@dataclass(frozen=True)
class SharedSettings:
    """What both the API and the controller are told from outside."""

    home: Home
    """The folder of the local stack."""
    database_url: str
    """Where runs, streams and the spool are stored, e.g. ``sqlite:////var/lib/mlbench.db``."""
    prometheus_url: str
    """The Prometheus that receives samples and answers queries."""
    workers: int
    """How many idle workers the pool keeps."""
    limits: Limits
    """What a run may ask for."""
    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    """The names, without port, by which clients may call the master."""
    spool_bytes: int = 1 << 30
    """How many bytes of samples may wait for Prometheus."""
    log_bytes: int = 64 << 20
    """How much of a rank's stdout, and of its stderr, is held: of more, its start and its end."""
    reserve_bytes: int = 64 << 20
    """How much of SQLite's disk is set aside for writing the state of runs."""
    archive: str = ""
    """Where the archives of runs lie: a folder, or ``s3://bucket/folder``."""
    archive_days: int = 0
    """How long they stay; 0: for ever."""
    archive_logs: bool = False
    """Whether they have what the ranks wrote."""
    url: str = "http://127.0.0.1:8000"
    """Where a browser reaches the master, for links."""
    grafana: GrafanaSettings | None = None
    """The Grafana to push the dashboards to, if there is one."""
    grafana_public_url: str | None = None
    """Where a browser reaches Grafana, if it does."""
    pool: PoolKind = "local"
    """Where workers come from."""
    start_seconds: int = 120
    """How long a run waits for its workers to come."""
    idle_seconds: int = 60
    """How long after a run its workers are kept warm for the next one."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "SharedSettings":
        """Read the settings.

        Raises:
            SettingsError: a variable is missing or holds what it cannot; the text names it.
        """
        home = Home.from_environ(environ)
        prometheus_url = _required(environ, names.ENV_PROMETHEUS_URL)
        pool = cast("PoolKind", _one_of(environ, names.ENV_POOL, *get_args(PoolKind)))
        grafana = _grafana(environ, prometheus_url)
        public_url = environ.get(names.ENV_GRAFANA_PUBLIC_URL) or (grafana and grafana.url)
        return cls(
            home=home,
            database_url=environ.get(names.ENV_DATABASE_URL) or f"sqlite:///{home.database}",
            prometheus_url=prometheus_url,
            workers=_whole(environ, names.ENV_WORKERS, 2, least=1),
            limits=_limits(environ, pool),
            allowed_hosts=LOOPBACK_HOSTS | _words(environ, "MLBENCH_ALLOWED_HOSTS"),
            spool_bytes=_whole(environ, "MLBENCH_SPOOL_BYTES", cls.spool_bytes, least=1),
            log_bytes=_whole(environ, "MLBENCH_LOG_BYTES", cls.log_bytes, least=1),
            reserve_bytes=_whole(environ, "MLBENCH_RESERVE_BYTES", cls.reserve_bytes),
            archive=environ.get("MLBENCH_ARCHIVE") or str(home.archive),
            archive_days=_whole(environ, "MLBENCH_ARCHIVE_DAYS", cls.archive_days),
            archive_logs=bool(_whole(environ, "MLBENCH_ARCHIVE_LOGS", 0)),
            url=(environ.get(names.ENV_URL) or cls.url).rstrip("/"),
            grafana=grafana,
            grafana_public_url=public_url.rstrip("/") if public_url else None,
            pool=pool,
            start_seconds=_whole(environ, "MLBENCH_START_SECONDS", cls.start_seconds, least=1),
            idle_seconds=_whole(environ, "MLBENCH_IDLE_SECONDS", cls.idle_seconds),
        )


@dataclass(frozen=True, kw_only=True)
class Settings(SharedSettings):
    """Everything that the API is told: also who may call it, which is not for the controller."""

    token: str
    """What a user shows."""
    agent_secret: str
    """What the tokens of pods are made with: with one, an agent can poll and ship, nothing else."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings, with the errors of ``SharedSettings``."""
        return cls(
            **vars(SharedSettings.from_environ(environ)),
            token=_required(environ, names.ENV_TOKEN),
            agent_secret=_required(environ, names.ENV_AGENT_SECRET),
        )


def _one_of(environ: Mapping[str, str], name: str, *choices: str) -> str:
    """Read one of some words, by default the first."""
    word = environ.get(name) or choices[0]
    if word not in choices:
        raise SettingsError(f"${name} is {word!r}; it must be {' or '.join(choices)}")
    return word


def _grafana(environ: Mapping[str, str], prometheus_url: str) -> GrafanaSettings | None:
    """Read what is checked when Grafana is called: a mistake in it keeps no run waiting."""
    url = environ.get(names.ENV_GRAFANA_URL)
    if not url:
        return None
    return GrafanaSettings(
        url=url,
        token=environ.get(names.ENV_GRAFANA_TOKEN, ""),
        prometheus_url=environ.get(names.ENV_GRAFANA_PROMETHEUS_URL) or prometheus_url,
        scrape_interval=environ.get(names.ENV_SCRAPE_INTERVAL) or names.DEFAULT_SCRAPE_INTERVAL,
    )


def _limits(environ: Mapping[str, str], pool: PoolKind) -> Limits:
    in_cluster = pool == "kubernetes"
    gpus = 0 if in_cluster else len([*Path("/proc/driver/nvidia/gpus").glob("*")])  # those here
    return Limits(
        workers=_whole(environ, "MLBENCH_LIMIT_WORKERS", Limits.workers, least=1),
        cpus=_cores(environ, "MLBENCH_LIMIT_CPUS", Limits.cpus),
        # Without an order, nothing limits what local workers send.
        bandwidth=_number(environ, "MLBENCH_LIMIT_BANDWIDTH") if in_cluster else 0.0,
        no_bandwidth=environ.get(names.ENV_NO_BANDWIDTH, ""),
        no_latency=environ.get(names.ENV_NO_LATENCY, ""),
        gpus=_whole(environ, "MLBENCH_LIMIT_GPUS", gpus),
        series=_whole(environ, "MLBENCH_LIMIT_SERIES", Limits.series, least=1),
        backends=tuple(sorted(_words(environ, "MLBENCH_BACKENDS"))) or Limits.backends,
        pool=pool,
        framework_images=_pairs(environ, "MLBENCH_FRAMEWORK_IMAGES"),
        always_queue=_one_of(environ, "MLBENCH_QUEUE", "asked", "always") == "always",
        concurrent_runs=_whole(environ, "MLBENCH_CONCURRENT_RUNS", 1, least=1),
        join_runs=_whole(environ, "MLBENCH_JOIN_RUNS", Limits.join_runs, least=1),
        join_ranks=_whole(environ, "MLBENCH_JOIN_RANKS", Limits.join_ranks, least=1),
        join_rate=_whole(environ, "MLBENCH_JOIN_RATE", Limits.join_rate, least=1),
    )


def _required(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise SettingsError(
        f"${name} is not set; `mlbench up` sets it for the local stack, the chart in a cluster"
    )


def _words(environ: Mapping[str, str], name: str) -> frozenset[str]:
    """Split a list that is separated by commas, in lowercase."""
    words = (word.strip().lower() for word in environ.get(name, "").split(","))
    return frozenset(filter(None, words))


def _pairs(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """Read a list such as ``jax=IMAGE,tensorflow=IMAGE``."""
    pairs = [pair.partition("=") for pair in environ.get(name, "").split(",") if pair]
    if all(key and value for key, _, value in pairs):
        return {key: value for key, _, value in pairs}
    raise SettingsError(f"${name} is {environ[name]!r}; it must be like jax=IMAGE,tensorflow=IMAGE")


def _whole(environ: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = environ.get(name) or str(default)
    if text.isdecimal() and int(text) >= least:
        return int(text)
    raise SettingsError(f"${name} is {text!r}; it must be a whole number, {least} or more")


def _cores(environ: Mapping[str, str], name: str, default: float) -> float:
    """Return a number of cores, which may be written as Kubernetes does: 8, 0.5 or 500m."""
    text = environ.get(name) or f"{default:g}"
    digits = text.removesuffix("m")
    cores = _to_number(digits) / (1000 if text.endswith("m") else 1)
    if cores > 0:
        return cores
    raise SettingsError(f"${name} is {text!r}; it must be a number of cores, such as 8 or 500m")


def _number(environ: Mapping[str, str], name: str) -> float:
    text = environ.get(name) or "0"
    number = _to_number(text)
    if number >= 0:
        return number
    raise SettingsError(f"${name} is {text!r}; it must be a number, 0 or more")


def _to_number(text: str) -> float:
    """Return a decimal number; -1 for what is none."""
    return float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else -1.0
