"""What the local stack runs: each process's command, environment and scrape target."""

import importlib.util
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench import names
from mlbench.errors import MLBenchError
from mlbench.home import Home, write_private

LOOPBACK = "127.0.0.1"
_MASTER_PORT = 8000
_PROMETHEUS_PORT = 9090
_EXPORTER_PORT = 9400
_WORKER_PORT = 9500
# How far from its usual place a port is looked for.
_PORTS_TRIED = 200
# Results are looked at long after the run.
_RETENTION = "1y"


class StackError(MLBenchError):
    """The local stack cannot be started; the text says what to do."""


@dataclass(frozen=True)
class Service:
    """A process that the supervisor keeps running."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    port: int | None = None
    """Where it serves HTTP, if it does."""
    health_path: str = "/metrics"
    """What answers once it works."""

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"{LOOPBACK}:{self.port}"


class Ports:
    """Gives out ports that are free, and that no other stack was given since its start."""

    def near(self, usual: int) -> int:
        """Return the first free port from the usual one on.

        Raises:
            StackError: none of the next 200 is free.
        """
        for port in range(usual, usual + _PORTS_TRIED):
            if is_free(port) and _reserve(port):
                return port
        raise StackError(f"no port from {usual} to {usual + _PORTS_TRIED - 1} is free")

    def exactly(self, port: int) -> int:
        """Return the port.

        Raises:
            StackError: something else has it.
        """
        if not (is_free(port) and _reserve(port)):
            raise StackError(f"port {port} is taken by another program; leave out --port")
        return port


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _reserve(port: int) -> bool:
    """Keep stacks that start at the same time from using a port; return whether it is ours.

    A socket of that name (an abstract one: it is no file) marks it until this process ends.
    """
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0mlbench-port-{port}")
    except OSError:
        mark.close()
        return False
    mark.detach()
    return True


class Services:
    """Knows every process of one stack. Ports and tokens stay as they are while it runs."""

    def __init__(self, home: Home, workers: int, port: int | None = None) -> None:
        self._home = home
        self._ports = Ports()
        self._worker_ports: dict[int, int] = {}
        self.token = _secret(home.root / "token")
        self._agent_token = _secret(home.root / "agent-token")
        master_port = self._ports.exactly(port) if port else self._ports.near(_MASTER_PORT)
        prometheus_port = self._ports.near(_PROMETHEUS_PORT)
        self.url = f"http://{LOOPBACK}:{master_port}"
        self.prometheus_url = f"http://{LOOPBACK}:{prometheus_port}"
        self._environ = {
            **{key: value for key, value in os.environ.items() if key not in _OUR_VARIABLES},
            **_no_proxy(),
            names.ENV_HOME: str(home.root),
        }
        self.fixed: tuple[Service, ...] = (
            self._prometheus(prometheus_port),
            self._master(master_port),
            self._controller(workers),
            self._exporter(),
        )

    def worker(self, number: int) -> Service:
        """Return the agent of a worker pod."""
        pod = f"{names.LOCAL_POD_PREFIX}{number}"
        if number not in self._worker_ports:
            self._worker_ports[number] = self._ports.near(_WORKER_PORT)
        port = self._worker_ports[number]
        return Service(
            name=pod,
            command=(
                *_python("worker.agent"),
                *("--pod", pod, "--folder", str(self._home.workers / pod)),
                *("--port", str(port), "--master", self.url),
            ),
            environ={
                **self._environ,
                names.ENV_POD: pod,
                names.ENV_AGENT_TOKEN: self._agent_token,
            },
            port=port,
        )

    def _prometheus(self, port: int) -> Service:
        folder = self._home.prometheus
        binary = find_prometheus()
        return Service(
            name="prometheus",
            command=(
                str(binary),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--storage.tsdb.retention.time={_RETENTION}",
                f"--web.listen-address={LOOPBACK}:{port}",
                "--web.enable-remote-write-receiver",
                "--log.level=warn",
                *_web_assets(binary),
            ),
            environ=self._environ,
            port=port,
            health_path="/-/ready",
        )

    def _master(self, port: int) -> Service:
        return Service(
            name="master",
            command=(
                *_python("gunicorn"),
                *("--config", "python:master.gunicorn_conf", "--bind", f"{LOOPBACK}:{port}"),
            ),
            environ=self._master_environ(),
            port=port,
            health_path="/readyz",
        )

    def _controller(self, workers: int) -> Service:
        return Service(
            name="controller",
            command=_python("master.controller"),
            environ={**self._master_environ(), names.ENV_WORKERS: str(workers)},
        )

    def _exporter(self) -> Service:
        port = self._ports.near(_EXPORTER_PORT)
        return Service(
            name="exporter",
            command=(*_python("exporter.app"), "--port", str(port)),
            environ=self._environ,
            port=port,
        )

    def _master_environ(self) -> dict[str, str]:
        return {
            **self._environ,
            names.ENV_TOKEN: self.token,
            names.ENV_AGENT_TOKEN: self._agent_token,
            names.ENV_PROMETHEUS_URL: self.prometheus_url,
        }


# What the stack sets itself; the user's shell may hold those of another one.
_OUR_VARIABLES = frozenset(
    {
        names.ENV_TOKEN,
        names.ENV_AGENT_TOKEN,
        names.ENV_PROMETHEUS_URL,
        names.ENV_DATABASE_URL,
        names.ENV_WORKERS,
        names.ENV_POD,
        names.ENV_RUN_ID,
        names.ENV_ATTEMPT,
        names.ENV_RANK,
        names.ENV_WORLD_SIZE,
        names.ENV_METRICS_FILE,
        # Set, it would change how every process of the stack counts.
        names.ENV_MULTIPROC_DIR,
    }
)


def _no_proxy() -> dict[str, str]:
    """Return the variables that keep the stack's own traffic away from the user's proxy."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    value = f"{given},{LOOPBACK}" if given else LOOPBACK
    return {"no_proxy": value, "NO_PROXY": value}


def find_prometheus() -> Path:
    """Return the Prometheus binary: $PROMETHEUS, or on the path, or where `make` puts it.

    Raises:
        StackError: there is none.
    """
    ours = _checkout() / ".tools" / "prometheus" / "bin" / "prometheus"
    found = os.environ.get("PROMETHEUS") or shutil.which("prometheus") or ours
    if Path(found).is_file():
        return Path(found)
    raise StackError(
        "Prometheus is missing: run `make install`, or install it (Debian: the package "
        "prometheus) and name the binary in $PROMETHEUS"
    )


def _web_assets(binary: Path) -> tuple[str, ...]:
    """Return the option that leads Debian's Prometheus, unpacked elsewhere, to its web pages."""
    assets = binary.resolve().parents[1] / "share" / "prometheus" / "web"
    return (f"--web.local-assets={assets}",) if assets.is_dir() else ()


def prometheus_config() -> Path:
    """Return the configuration that ships with the package or lies in the checkout."""
    installed = Path(__file__).parents[1] / "prometheus" / "prometheus.yml"
    return installed if installed.is_file() else _checkout() / "prometheus" / "prometheus.yml"


def check_installed() -> None:
    """Make sure that the parts which the stack starts are installed.

    Raises:
        StackError: an extra is missing.
    """
    needed = {"falcon": "master", "torch": "worker", "psutil": "exporter"}
    missing = [extra for module, extra in needed.items() if not importlib.util.find_spec(module)]
    if missing:
        extras = ",".join(missing)
        raise StackError(f"parts are missing: run `pip install 'mlbench[{extras}]'`")


def _checkout() -> Path:
    return Path(__file__).parents[2]


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module)


def _secret(path: Path) -> str:
    """Return the secret in a file, made up the first time."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32) + "\n")
    return path.read_text().strip()
