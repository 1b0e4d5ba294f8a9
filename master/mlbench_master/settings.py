"""Settings of the master, which each process reads from the environment once."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from mlbench.contract import names
from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench.contract.errors import MLBenchError
from mlbench.contract.fields import Before, Field, describe
from mlbench.contract.people import own_user
from mlbench.contract.runspec import read_cores
from mlbench.local.home import Home
from mlbench_master.http.proxies import Proxies


class SettingsError(MLBenchError):
    """An environment variable is missing or invalid."""


PoolKind = Literal["local", "kubernetes"]

# Names and addresses of this machine.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Variable:
    """The environment variable of a setting. Its value is converted to the type of the field."""

    name: str


def _split_words(text: str) -> list[str]:
    """Split a list that is separated by commas, in lowercase."""
    return sorted({word.strip().lower() for word in text.split(",")} - {""})


def _split_images(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    if not all(framework and image for framework, _, image in pairs):
        raise ValueError("must be like jax=IMAGE,tensorflow=IMAGE")
    return {framework: image for framework, _, image in pairs}


def _check_webhook(text: str) -> str:
    """Return the URL of a webhook. It may contain a token, so an error does not contain it."""
    try:
        url = httpx.URL(text.strip())
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(
            "must be an http or https URL, such as https://hooks.slack.com/services/… "
            "(got another text, which is not shown because it may contain a token)"
        )
    return str(url)


_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class InstallationLimits:
    """Limits of runs. The API refuses requests that the pool could not fulfil."""

    workers: Annotated[_Positive, Variable("MLBENCH_LIMIT_WORKERS")] = 16
    """Maximum number of workers of a run."""
    cpus: Annotated[float, Variable("MLBENCH_LIMIT_CPUS"), Before(read_cores), Field(gt=0)] = len(
        os.sched_getaffinity(0)
    )
    """Maximum number of cores of a worker."""
    bandwidth: Annotated[float, Variable("MLBENCH_LIMIT_BANDWIDTH"), Field(ge=0)] = 0.0
    """Maximum, and default, bandwidth of a worker in Mbit/s; 0: unlimited."""
    gpus: Annotated[_Count, Variable("MLBENCH_LIMIT_GPUS")] = 0
    """Number of GPUs of a worker."""
    series: Annotated[_Positive, Variable("MLBENCH_LIMIT_SERIES")] = 10_000
    """Maximum number of series of a run or pod."""
    backends: Annotated[tuple[str, ...], Variable("MLBENCH_BACKENDS"), Before(_split_words)] = (
        "gloo",
        "nccl",
    )
    """Communication backends of PyTorch on the workers; the releases on PyPI have no mpi."""
    pool: Annotated[PoolKind, Variable(names.ENV_POOL)] = "local"
    """Source of workers. Local workers get whole cores."""
    no_bandwidth: Annotated[str, Variable(names.ENV_NO_BANDWIDTH)] = ""
    """Reason why the bandwidth of workers cannot be limited; empty if it can."""
    no_latency: Annotated[str, Variable(names.ENV_NO_LATENCY)] = ""
    """Reason why traffic of workers cannot be delayed or dropped; empty if it can."""
    framework_images: Annotated[
        Mapping[str, str], Variable("MLBENCH_FRAMEWORK_IMAGES"), Before(_split_images)
    ] = field(default_factory=dict)
    """Image of the workers for each framework besides PyTorch, on a cluster."""
    always_queue: Annotated[
        bool,
        Variable("MLBENCH_QUEUE"),
        Before(lambda choice: choice == "always", Literal["asked", "always"]),
    ] = False
    """Whether a run waits for active runs even if its request does not say so."""
    concurrent_runs: Annotated[_Positive, Variable("MLBENCH_CONCURRENT_RUNS")] = 1
    """Maximum number of active runs, if there is capacity for them."""
    join_runs: Annotated[_Positive, Variable("MLBENCH_JOIN_RUNS")] = 200
    """Maximum number of active runs of a joining token."""
    join_ranks: Annotated[_Positive, Variable("MLBENCH_JOIN_RANKS")] = 4096
    """Maximum number of ranks in the active runs of a joining token."""
    join_rate: Annotated[_Positive, Variable("MLBENCH_JOIN_RATE")] = 60
    """Maximum number of runs that a joining token submits in a minute."""


@dataclass(frozen=True)
class ClusterSettings:
    """Manifest, namespace and owner of the worker pods, which only the controller needs."""

    manifest: Annotated[Path, Variable(names.ENV_WORKER_MANIFEST)]
    """JSON file with the manifest of the worker pods."""
    namespace: Annotated[str, Variable(names.ENV_NAMESPACE)]
    owner: Annotated[str, Variable(names.ENV_OWNER)]
    """Deployment that owns the workers: they are deleted with it."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "ClusterSettings":
        """Read the settings.

        Raises:
            SettingsError: a variable is missing.
        """
        return _read(cls, environ)


@dataclass(frozen=True)
class GrafanaSettings:
    """The Grafana that gets the dashboards."""

    # They are checked when Grafana is called, so that a mistake in them stops no run.
    url: Annotated[str, Variable(names.ENV_GRAFANA_URL)]
    """Address of its home page."""
    token: Annotated[str, Variable(names.ENV_GRAFANA_TOKEN)]
    """Token of a service account, or ``user:password``."""
    prometheus_url: Annotated[str, Variable(names.ENV_GRAFANA_PROMETHEUS_URL)]
    """Address of Prometheus, as Grafana reaches it."""
    scrape_interval: Annotated[str, Variable(names.ENV_SCRAPE_INTERVAL)] = (
        names.DEFAULT_SCRAPE_INTERVAL
    )
    """Scrape interval of that Prometheus, such as ``2s``."""


_Address = Annotated[str, Before(lambda url: url.rstrip("/"))]


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Settings of both the API and the controller."""

    home: Home
    """Folder of the local stack."""
    database_url: Annotated[str, Variable(names.ENV_DATABASE_URL)]
    """Database of runs, streams and the spool, e.g. ``sqlite:////var/lib/mlbench.db``."""
    prometheus_url: Annotated[str, Variable(names.ENV_PROMETHEUS_URL)]
    """The Prometheus that receives samples and answers queries."""
    prometheus_write_url: Annotated[str, Variable(names.ENV_PROMETHEUS_WRITE_URL)] = ""
    """Address for remote write; empty: ``/api/v1/write`` below the address of Prometheus."""
    workers: Annotated[_Positive, Variable(names.ENV_WORKERS)] = 2
    """Number of idle workers that the pool keeps."""
    limits: InstallationLimits
    """Limits of runs."""
    allowed_hosts: Annotated[
        frozenset[str],
        Variable("MLBENCH_ALLOWED_HOSTS"),
        Before(_split_words),
    ] = LOOPBACK_HOSTS
    """Host names, without port, by which clients may call the master."""
    proxies: Proxies = field(default_factory=Proxies)
    """Proxies between clients and the master."""
    spool_bytes: Annotated[_Positive, Variable("MLBENCH_SPOOL_BYTES")] = 1 << 30
    """Maximum size of the samples that wait for Prometheus, in bytes."""
    log_bytes: Annotated[_Positive, Variable("MLBENCH_LOG_BYTES")] = 64 << 20
    """Maximum size of a rank's stdout, and of its stderr; the middle of a longer log is dropped."""
    reserve_bytes: Annotated[_Count, Variable("MLBENCH_RESERVE_BYTES")] = 64 << 20
    """Bytes of SQLite's disk that are reserved for the state of runs."""
    archive: Annotated[str, Variable("MLBENCH_ARCHIVE")] = ""
    """Folder of the archives of runs: a path, or ``s3://bucket/folder``."""
    archive_days: Annotated[_Count, Variable("MLBENCH_ARCHIVE_DAYS")] = 0
    """Number of days for which archives are kept; 0: forever."""
    archive_logs: Annotated[bool, Variable("MLBENCH_ARCHIVE_LOGS")] = False
    """Whether archives contain the logs of the ranks."""
    url: Annotated[_Address, Variable(names.ENV_URL)] = "http://127.0.0.1:8000"
    """Address of the master for browsers, for links."""
    grafana: GrafanaSettings | None = None
    """The Grafana that gets the dashboards, if there is one."""
    prometheus_public_url: Annotated[_Address | None, Variable(names.ENV_PROMETHEUS_PUBLIC_URL)] = (
        None
    )
    """Address of Prometheus for browsers; None if they cannot reach it."""
    grafana_public_url: Annotated[_Address | None, Variable(names.ENV_GRAFANA_PUBLIC_URL)] = None
    """Address of Grafana for browsers; None if they cannot reach it."""
    notify_url: Annotated[str, Variable(names.ENV_NOTIFY_URL), Before(_check_webhook)] = ""
    """Webhook that is told when a run ends or hangs; empty for none, and for the API."""
    start_seconds: Annotated[_Positive, Variable("MLBENCH_START_SECONDS")] = 120
    """Longest wait of a run for its workers, in seconds."""
    idle_seconds: Annotated[_Count, Variable("MLBENCH_IDLE_SECONDS")] = 60
    """Seconds after a run for which its workers are kept for the next one."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the settings.

        Raises:
            SettingsError: a variable is missing or invalid.
        """
        home, grafana_url = Home.from_environ(environ), environ.get(names.ENV_GRAFANA_URL)
        settings = _read(
            cls,
            environ,
            home=home,
            database_url=f"sqlite:///{home.database}",
            archive=str(home.archive),
            grafana_public_url=grafana_url and grafana_url.rstrip("/"),
            limits=InstallationLimits(),
        )
        limits = _read(InstallationLimits, environ)
        if limits.pool == "local":
            # Local workers are limited only by the request of a run, and only they have the GPUs of
            # this machine.
            gpus = len([*Path("/proc/driver/nvidia/gpus").glob("*")])
            limits = replace(_read(InstallationLimits, environ, gpus=gpus), bandwidth=0.0)
        grafana = None
        if grafana_url:
            grafana = _read(
                GrafanaSettings, environ, token="", prometheus_url=settings.prometheus_url
            )
        own_hosts = LOOPBACK_HOSTS | {urlsplit(settings.url).hostname or ""}
        return replace(
            settings,
            limits=limits,
            grafana=grafana,
            allowed_hosts=settings.allowed_hosts | own_hosts,
            proxies=_read_proxies(environ, settings.url),
        )


@dataclass(frozen=True, kw_only=True)
class Settings(SharedSettings):
    """Settings of the API, which include its secrets."""

    token: Annotated[str, Variable(names.ENV_TOKEN)]
    """User token, which has the role ``admin`` and signs the named tokens."""
    agent_secret: Annotated[str, Variable(names.ENV_AGENT_SECRET)]
    """Secret that signs the tokens of pods, which allow an agent only to poll and to ship."""
    user: str = ""
    """User of requests that name no user."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the settings, with the errors of ``SharedSettings``."""
        settings = super().from_environ(environ)
        # A pod's user is not a person.
        return replace(settings, user=own_user(environ) if settings.limits.pool == "local" else "")


T = TypeVar("T")


def _read_proxies(environ: Mapping[str, str], url: str) -> Proxies:
    """Read the root path, by default that of the master's URL, and the addresses of proxies."""
    root_path = environ.get("MLBENCH_ROOT_PATH", urlsplit(url).path).rstrip("/")
    if not re.fullmatch(r"(/[\w.~-]+)*", root_path, re.ASCII):
        raise SettingsError(f"$MLBENCH_ROOT_PATH: must be like /mlbench (got {root_path!r})")
    networks = []
    for name in ("MLBENCH_TRUSTED_PROXIES", "MLBENCH_SIGN_IN_PROXIES"):
        addresses = environ.get(name, "")
        try:
            networks.append(tuple(map(ip_network, _split_words(addresses))))
        except ValueError as error:
            rule = f"must be addresses or networks, such as 127.0.0.1,10.0.0.0/8: {error}"
            raise SettingsError(f"${name}: {rule} (got {addresses!r})") from None
    return Proxies(root_path, *networks)


def _read(settings: type[T], environ: Mapping[str, str], **values: Any) -> T:
    """Return settings from the environment, else from these values, else by default.

    Raises:
        SettingsError: a variable is missing or invalid.
    """
    for name, described in describe(settings).items():
        for variable in described.type.__metadata__:
            if not isinstance(variable, Variable):
                continue
            if text := environ.get(variable.name):
                try:
                    values[name] = convert(described.type, text)
                except InvalidFieldsError as error:
                    raise SettingsError(f"${variable.name}: {error.problems[0][1]}") from None
            elif described.required and name not in values:
                raise SettingsError(
                    f"${variable.name}: not set. `mlbench up` sets it for the local stack, the "
                    "Helm chart on a cluster."
                )
    return settings(**values)
