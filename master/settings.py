"""The master's settings: one dataclass, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from mlbench import names
from mlbench.errors import MLBenchError
from mlbench.home import Home


class SettingsError(MLBenchError):
    """An environment variable is missing or wrong."""


@dataclass(frozen=True)
class Limits:
    """What a run may ask for. The API refuses what the pool could not give."""

    workers: int = 16
    """Most workers of a run."""
    cpus: int = os.cpu_count() or 1
    """Most whole cores of a worker."""


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
            limits=Limits(workers=_positive(environ, "MLBENCH_LIMIT_WORKERS", 16)),
        )


def _required(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise SettingsError(f"${name} is not set; `mlbench up` sets it for the local stack")


def _positive(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise SettingsError(f"${name} is {text!r}; it must be a whole number above 0")
