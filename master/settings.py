"""The master's settings: one dataclass, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mlbench import names
from mlbench.errors import MLBenchError
from mlbench.home import Home


class SettingsError(MLBenchError):
    """An environment variable is missing or wrong."""


# What is always this machine.
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Limits:
    """What a run may ask for. The API refuses what the pool could not give."""

    workers: int = 16
    """Most workers of a run."""
    cpus: int = os.cpu_count() or 1
    """Most cores of a worker."""
    bandwidth: float = 0.0
    """Most Mbit/s that a worker may be held to; 0 where the pool cannot hold it to any."""
    gpus: int = 0
    """GPUs of a worker."""


@dataclass(frozen=True)
class Settings:
    """Everything that the API and the controller are told from outside."""

    home: Home
    """The folder of the local stack."""
    database_url: str
    """Where runs, streams and the spool are stored, e.g. ``sqlite:////var/lib/mlbench.db``."""
    prometheus_url: str
    """The Prometheus that receives samples and answers queries."""
    token: str
    """What a user shows."""
    agent_token: str
    """What an agent shows: it can poll and ship, nothing else."""
    workers: int
    """How many idle workers the pool keeps."""
    limits: Limits
    """What a run may ask for."""
    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    """The names, without port, by which clients may call the master."""
    spool_bytes: int = 1 << 30
    """How many bytes of samples may wait for Prometheus."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings.

        Raises:
            SettingsError: a variable is missing or holds what it cannot; the text names it.
        """
        home = Home.from_environ(environ)
        return cls(
            home=home,
            database_url=environ.get(names.ENV_DATABASE_URL) or f"sqlite:///{home.database}",
            prometheus_url=_required(environ, names.ENV_PROMETHEUS_URL),
            token=_required(environ, names.ENV_TOKEN),
            agent_token=_required(environ, names.ENV_AGENT_TOKEN),
            workers=_positive(environ, names.ENV_WORKERS, 2),
            limits=Limits(
                workers=_positive(environ, "MLBENCH_LIMIT_WORKERS", Limits.workers),
                cpus=_positive(environ, "MLBENCH_LIMIT_CPUS", Limits.cpus),
            ),
            allowed_hosts=LOOPBACK_HOSTS | _words(environ, "MLBENCH_ALLOWED_HOSTS"),
            spool_bytes=_positive(environ, "MLBENCH_SPOOL_BYTES", 1 << 30),
        )


def _required(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise SettingsError(f"${name} is not set; `mlbench up` sets it for the local stack")


def _words(environ: Mapping[str, str], name: str) -> frozenset[str]:
    """Return what a variable lists, separated by commas, in lowercase."""
    words = (word.strip().lower() for word in environ.get(name, "").split(","))
    return frozenset(filter(None, words))


def _positive(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise SettingsError(f"${name} is {text!r}; it must be a whole number above 0")
