"""Settings of the master, which each process reads from the environment once."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from mlbench.contract import names
from mlbench.contract.errors import MLBenchError
from mlbench.local.home import Home
from mlbench_master.http.proxies import Proxies


class SettingsError(MLBenchError):
    """An environment variable is missing or invalid."""


PoolKind = Literal["local", "kubernetes"]

# Names and addresses of this machine.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class InstallationLimits:
    """Limits of runs. The API refuses requests that the pool could not fulfil."""

    workers: int = 16
    """Maximum number of workers of a run."""
    cpus: float = len(os.sched_getaffinity(0))
    """Maximum number of cores of a worker."""
    bandwidth: float = 0.0
    """Maximum, and default, bandwidth of a worker in Mbit/s; 0: unlimited."""
    gpus: int = 0
    """Number of GPUs of a worker."""
    series: int = 10_000
    """Maximum number of series of a run or pod."""
    backends: tuple[str, ...] = ("gloo", "nccl")
    """Communication backends of PyTorch on the workers; the releases on PyPI have no mpi."""
    pool: PoolKind = "local"
    """Kind of the pool. Local workers get whole cores."""
    no_bandwidth: str = ""
    """Reason why the bandwidth of workers cannot be limited; empty if it can."""
    no_latency: str = ""
    """Reason why traffic of workers cannot be delayed or dropped; empty if it can."""
    framework_images: Mapping[str, str] = field(default_factory=dict)
    """Image of the workers for each framework besides PyTorch, on a cluster."""
    always_queue: bool = False
    """Whether a run waits for active runs even if its request does not say so."""
    concurrent_runs: int = 1
    """Maximum number of active runs, if there is capacity for them."""
    join_runs: int = 200
    """Maximum number of active runs of a joining token."""
    join_ranks: int = 4096
    """Maximum number of ranks in the active runs of a joining token."""
    join_rate: int = 60
    """Maximum number of runs that a joining token submits in a minute."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], pool: PoolKind) -> "InstallationLimits":
        """Read the limits.

        Raises:
            SettingsError: a variable is invalid.
        """
        is_cluster = pool == "kubernetes"
        # Only local workers have the GPUs of this machine.
        gpus = 0 if is_cluster else len([*Path("/proc/driver/nvidia/gpus").glob("*")])
        name = "MLBENCH_FRAMEWORK_IMAGES"
        images = [pair.partition("=") for pair in environ.get(name, "").split(",") if pair]
        if not all(framework and image for framework, _, image in images):
            raise _invalid(name, environ[name], "must be like jax=IMAGE,tensorflow=IMAGE")
        return cls(
            workers=_whole(environ, "MLBENCH_LIMIT_WORKERS", cls.workers, least=1),
            cpus=_cores(environ, "MLBENCH_LIMIT_CPUS", cls.cpus),
            # Local workers are limited only by the request of a run.
            bandwidth=_number(environ, "MLBENCH_LIMIT_BANDWIDTH") if is_cluster else 0.0,
            no_bandwidth=environ.get(names.ENV_NO_BANDWIDTH, ""),
            no_latency=environ.get(names.ENV_NO_LATENCY, ""),
            gpus=_whole(environ, "MLBENCH_LIMIT_GPUS", gpus),
            series=_whole(environ, "MLBENCH_LIMIT_SERIES", cls.series, least=1),
            backends=tuple(sorted(_words(environ, "MLBENCH_BACKENDS"))) or cls.backends,
            pool=pool,
            framework_images={framework: image for framework, _, image in images},
            always_queue=_one_of(environ, "MLBENCH_QUEUE", "asked", "always") == "always",
            concurrent_runs=_whole(environ, "MLBENCH_CONCURRENT_RUNS", 1, least=1),
            join_runs=_whole(environ, "MLBENCH_JOIN_RUNS", cls.join_runs, least=1),
            join_ranks=_whole(environ, "MLBENCH_JOIN_RANKS", cls.join_ranks, least=1),
            join_rate=_whole(environ, "MLBENCH_JOIN_RATE", cls.join_rate, least=1),
        )


@dataclass(frozen=True)
class ClusterSettings:
    """Manifest, namespace and owner of the worker pods in a Kubernetes cluster."""

    manifest: Path
    """JSON file with the manifest of the worker pods."""
    namespace: str
    owner: str
    """Deployment that owns the workers: they are deleted with it."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "ClusterSettings":
        """Read the settings, which only the controller needs.

        Raises:
            SettingsError: a variable is missing.
        """
        manifest = Path(_required(environ, names.ENV_WORKER_MANIFEST))
        namespace, owner = (_required(environ, n) for n in (names.ENV_NAMESPACE, names.ENV_OWNER))
        return cls(manifest, namespace, owner)


@dataclass(frozen=True)
class GrafanaSettings:
    """The Grafana that gets the dashboards."""

    url: str
    """Address of its home page."""
    token: str
    """Token of a service account, or ``user:password``."""
    prometheus_url: str
    """Address of Prometheus, as Grafana reaches it."""
    scrape_interval: str = names.DEFAULT_SCRAPE_INTERVAL
    """Scrape interval of that Prometheus, such as ``2s``."""


@dataclass(frozen=True)
class SharedSettings:
    """Settings of both the API and the controller."""

    home: Home
    """Folder of the local stack."""
    database_url: str
    """Database of runs, streams and the spool, e.g. ``sqlite:////var/lib/mlbench.db``."""
    prometheus_url: str
    """The Prometheus that receives samples and answers queries."""
    workers: int
    """Number of idle workers that the pool keeps."""
    limits: InstallationLimits
    """Limits of runs."""
    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    """Host names, without port, by which clients may call the master."""
    proxies: Proxies = field(default_factory=Proxies)
    """Proxies between clients and the master."""
    spool_bytes: int = 1 << 30
    """Maximum size of the samples that wait for Prometheus, in bytes."""
    log_bytes: int = 64 << 20
    """Maximum size of a rank's stdout, and of its stderr; the middle of a longer log is dropped."""
    reserve_bytes: int = 64 << 20
    """Bytes of SQLite's disk that are reserved for the state of runs."""
    archive: str = ""
    """Folder of the archives of runs: a path, or ``s3://bucket/folder``."""
    archive_days: int = 0
    """Number of days for which archives are kept; 0: forever."""
    archive_logs: bool = False
    """Whether archives contain the logs of the ranks."""
    url: str = "http://127.0.0.1:8000"
    """Address of the master for browsers, for links."""
    grafana: GrafanaSettings | None = None
    """The Grafana that gets the dashboards, if there is one."""
    grafana_public_url: str | None = None
    """Address of Grafana for browsers; None if they cannot reach it."""
    pool: PoolKind = "local"
    """Source of workers."""
    start_seconds: int = 120
    """Longest wait of a run for its workers, in seconds."""
    idle_seconds: int = 60
    """Seconds after a run for which its workers are kept for the next one."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "SharedSettings":
        """Read the settings.

        Raises:
            SettingsError: a variable is missing or invalid.
        """
        home = Home.from_environ(environ)
        prometheus_url = _required(environ, names.ENV_PROMETHEUS_URL)
        pool = cast("PoolKind", _one_of(environ, names.ENV_POOL, *get_args(PoolKind)))
        grafana = None
        # The rest is checked when Grafana is called, so that a mistake in it stops no run.
        if grafana_url := environ.get(names.ENV_GRAFANA_URL):
            interval = environ.get(names.ENV_SCRAPE_INTERVAL) or names.DEFAULT_SCRAPE_INTERVAL
            grafana = GrafanaSettings(
                url=grafana_url,
                token=environ.get(names.ENV_GRAFANA_TOKEN, ""),
                prometheus_url=environ.get(names.ENV_GRAFANA_PROMETHEUS_URL) or prometheus_url,
                scrape_interval=interval,
            )
        public_url = environ.get(names.ENV_GRAFANA_PUBLIC_URL) or (grafana and grafana.url)
        url = (environ.get(names.ENV_URL) or cls.url).rstrip("/")
        hosts = LOOPBACK_HOSTS | {urlsplit(url).hostname or ""}
        return cls(
            home=home,
            database_url=environ.get(names.ENV_DATABASE_URL) or f"sqlite:///{home.database}",
            prometheus_url=prometheus_url,
            workers=_whole(environ, names.ENV_WORKERS, 2, least=1),
            limits=InstallationLimits.from_environ(environ, pool),
            allowed_hosts=hosts | _words(environ, "MLBENCH_ALLOWED_HOSTS"),
            proxies=_proxies(environ, url),
            spool_bytes=_whole(environ, "MLBENCH_SPOOL_BYTES", cls.spool_bytes, least=1),
            log_bytes=_whole(environ, "MLBENCH_LOG_BYTES", cls.log_bytes, least=1),
            reserve_bytes=_whole(environ, "MLBENCH_RESERVE_BYTES", cls.reserve_bytes),
            archive=environ.get("MLBENCH_ARCHIVE") or str(home.archive),
            archive_days=_whole(environ, "MLBENCH_ARCHIVE_DAYS", cls.archive_days),
            archive_logs=bool(_whole(environ, "MLBENCH_ARCHIVE_LOGS", 0)),
            url=url,
            grafana=grafana,
            grafana_public_url=public_url.rstrip("/") if public_url else None,
            pool=pool,
            start_seconds=_whole(environ, "MLBENCH_START_SECONDS", cls.start_seconds, least=1),
            idle_seconds=_whole(environ, "MLBENCH_IDLE_SECONDS", cls.idle_seconds),
        )


@dataclass(frozen=True, kw_only=True)
class Settings(SharedSettings):
    """Settings of the API, which include its secrets."""

    token: str
    """Token of users."""
    agent_secret: str
    """Secret that signs the tokens of pods, which allow an agent only to poll and to ship."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings, with the errors of ``SharedSettings``."""
        return cls(
            **vars(SharedSettings.from_environ(environ)),
            token=_required(environ, names.ENV_TOKEN),
            agent_secret=_required(environ, names.ENV_AGENT_SECRET),
        )


def _proxies(environ: Mapping[str, str], url: str) -> Proxies:
    """Read the root path, by default that of the master's URL, and the addresses of proxies."""
    root_path = environ.get("MLBENCH_ROOT_PATH", urlsplit(url).path).rstrip("/")
    if not re.fullmatch(r"(/[\w.~-]+)*", root_path, re.ASCII):
        raise _invalid("MLBENCH_ROOT_PATH", root_path, "must be like /mlbench")
    name = "MLBENCH_TRUSTED_PROXIES"
    try:
        trusted = tuple(map(ip_network, sorted(_words(environ, name))))
    except ValueError as error:
        rule = f"must be addresses or networks, such as 127.0.0.1,10.0.0.0/8: {error}"
        raise _invalid(name, environ[name], rule) from None
    return Proxies(root_path, trusted)


def _required(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise SettingsError(
        f"${name}: not set. `mlbench up` sets it for the local stack, the Helm chart on a cluster."
    )


def _invalid(name: str, text: str, rule: str) -> SettingsError:
    return SettingsError(f"${name}: {rule} (got {text!r})")


def _one_of(environ: Mapping[str, str], name: str, *choices: str) -> str:
    """Read one of several words; the first is the default."""
    word = environ.get(name) or choices[0]
    if word not in choices:
        raise _invalid(name, word, f"must be {' or '.join(choices)}")
    return word


def _words(environ: Mapping[str, str], name: str) -> frozenset[str]:
    """Read a list that is separated by commas, in lowercase."""
    words = (word.strip().lower() for word in environ.get(name, "").split(","))
    return frozenset(filter(None, words))


def _whole(environ: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = environ.get(name) or str(default)
    if text.isdecimal() and int(text) >= least:
        return int(text)
    raise _invalid(name, text, f"must be a whole number of at least {least}")


def _cores(environ: Mapping[str, str], name: str, default: float) -> float:
    """Read a number of cores, in the notations of Kubernetes: 8, 0.5 or 500m."""
    text = environ.get(name) or f"{default:g}"
    cores = _to_number(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    if cores > 0:
        return cores
    raise _invalid(name, text, "must be a number of cores, such as 8 or 500m")


def _number(environ: Mapping[str, str], name: str) -> float:
    text = environ.get(name) or "0"
    number = _to_number(text)
    if number >= 0:
        return number
    raise _invalid(name, text, "must be a number of at least 0")


def _to_number(text: str) -> float:
    """Return a decimal number, or -1 for any other text."""
    return float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else -1.0
