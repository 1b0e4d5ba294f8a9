"""What the local stack runs: each process's command, environment and scrape target."""

import importlib.util
import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench import names, pod_token
from mlbench.assets import CHECKOUT
from mlbench.home import Home, write_private
from mlbench.login import Login, with_login
from mlbench.pod_token import PodIdentity, derive
from mlbench.stack import grafana, prometheus
from mlbench.stack.errors import StackError
from mlbench.stack.ports import LOOPBACK, Ports

_MASTER_PORT = 8000
_GRAFANA_PORT = 3000
_PROMETHEUS_PORT = 9090
_CONTROLLER_PORT = 9300
_EXPORTER_PORT = 9400
_WORKER_PORT = 9500
# Results are looked at long after the run.
_RETENTION = "1y"


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
    optional: bool = False
    """Whether the stack is ready without it."""
    metrics_path: str = "/metrics"
    """Where Prometheus scrapes it."""
    login: Login | None = None
    """What it wants to be shown."""

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"{LOOPBACK}:{self.port}"


class Services:
    """Knows every process of one stack. Ports and tokens stay as they are while it runs."""

    def __init__(self, home: Home, workers: int, port: int | None = None) -> None:
        self._home = home
        self._ports = Ports()
        self._worker_ports: dict[int, int] = {}
        # The parts themselves run elsewhere: see the supervisor.
        self._started_in = Path.cwd()
        self.token = _secret(home.root / "token")
        self._agent_secret = _secret(home.root / "agent-secret")
        master_port = self._ports.exactly(port) if port else self._ports.near(_MASTER_PORT)
        prometheus_port = self._ports.near(_PROMETHEUS_PORT)
        self.url = f"http://{LOOPBACK}:{master_port}"
        # Open to those who know both: see mlbench.stack.prometheus.
        self._prometheus_path = f"/{_secret(home.root / 'prometheus-path')}"
        self._prometheus_login = Login(prometheus.USER, _secret(home.root / "prometheus-password"))
        self._prometheus_place = f"http://{LOOPBACK}:{prometheus_port}{self._prometheus_path}"
        self.prometheus_url = with_login(self._prometheus_place, self._prometheus_login)
        self._environ = {
            **{key: value for key, value in os.environ.items() if key not in _OUR_VARIABLES},
            **_no_proxy(),
            names.ENV_HOME: str(home.root),
        }
        found = grafana.find_grafana()
        shown = self._grafana(found) if found else None
        self.grafana_url = f"http://{shown.address}" if shown else None
        self.fixed: tuple[Service, ...] = (
            self._prometheus(prometheus_port),
            self._master(master_port, workers),
            self._controller(workers),
            self._exporter(),
            *([shown] if shown else []),
        )

    def worker(self, number: int) -> Service:
        """Return the agent of a worker pod."""
        pod = f"{names.LOCAL_POD_PREFIX}{number}"
        token_file = self._home.pod_token(pod)
        if number not in self._worker_ports:
            self._worker_ports[number] = self._ports.near(_WORKER_PORT)
            pod_token.write(token_file, derive(PodIdentity(pod, uid=""), self._agent_secret))
        port = self._worker_ports[number]
        return Service(
            name=pod,
            command=(
                *_python("worker.agent"),
                *("--pod", pod, "--folder", str(self._home.workers / pod)),
                *("--port", str(port), "--master", self.url, "--start-in", str(self._started_in)),
                *("--token-file", str(token_file)),
            ),
            environ={**self._environ, names.ENV_POD: pod},
            port=port,
        )

    def _prometheus(self, port: int) -> Service:
        folder, path = self._home.prometheus, self._prometheus_path
        binary = find_prometheus()
        web_config = prometheus.write_login(folder, self._prometheus_login)
        return Service(
            name="prometheus",
            command=(
                str(binary),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--storage.tsdb.retention.time={_RETENTION}",
                f"--web.listen-address={LOOPBACK}:{port}",
                f"--web.external-url={self._prometheus_place}",
                f"--web.config.file={web_config}",
                "--web.enable-remote-write-receiver",
                "--log.level=warn",
                *_web_assets(binary),
            ),
            environ=self._environ,
            port=port,
            health_path=f"{path}/-/ready",
            metrics_path=f"{path}/metrics",
            login=self._prometheus_login,
        )

    def _master(self, port: int, workers: int) -> Service:
        return Service(
            name="master",
            command=(
                *_python("gunicorn"),
                *("--config", "python:master.gunicorn_conf", "--bind", f"{LOOPBACK}:{port}"),
            ),
            environ={
                **self._master_environ(workers),
                **self._shown_grafana(),
                names.ENV_TOKEN: self.token,
                names.ENV_AGENT_SECRET: self._agent_secret,
            },
            port=port,
            health_path="/readyz",
        )

    def _controller(self, workers: int) -> Service:
        given = {key: os.environ[key] for key in _GRAFANA_VARIABLES if key in os.environ}
        port = self._ports.near(_CONTROLLER_PORT)
        return Service(
            name="controller",
            command=(*_python("master.controller"), "--port", str(port)),
            environ={**self._master_environ(workers), **given},
            port=port,
        )

    def _shown_grafana(self) -> dict[str, str]:
        """Return the address of the user's own Grafana, or else the stack's, for a browser."""
        given = (names.ENV_GRAFANA_PUBLIC_URL, names.ENV_GRAFANA_URL)
        url = next(filter(None, map(os.environ.get, given)), self.grafana_url)
        return {names.ENV_GRAFANA_PUBLIC_URL: url} if url else {}

    def _grafana(self, found: grafana.Grafana) -> Service:
        port = self._ports.near(_GRAFANA_PORT)
        return Service(
            name="grafana",
            command=found.command(),
            environ={
                **grafana.without_settings(self._environ),
                **grafana.settings(
                    self._home.grafana,
                    LOOPBACK,
                    port,
                    self._grafana_password(),
                    self._prometheus_place,
                    self._prometheus_login,
                ),
            },
            port=port,
            health_path="/api/health",
            optional=True,
        )

    def _grafana_password(self) -> str:
        return _secret(self._home.root / "grafana-password")

    def _exporter(self) -> Service:
        port = self._ports.near(_EXPORTER_PORT)
        return Service(
            name="exporter",
            command=(*_python("exporter.app"), "--port", str(port)),
            environ=self._environ,
            port=port,
        )

    def _master_environ(self, workers: int) -> dict[str, str]:
        return {
            **self._environ,
            names.ENV_PROMETHEUS_URL: self.prometheus_url,
            names.ENV_URL: self.url,
            names.ENV_WORKERS: str(workers),
        }


# A Grafana of the user's own, for the controller alone.
_GRAFANA_VARIABLES = frozenset(
    {names.ENV_GRAFANA_URL, names.ENV_GRAFANA_TOKEN, names.ENV_GRAFANA_PROMETHEUS_URL}
)

# What the stack sets itself; the user's shell may hold those of another one.
_OUR_VARIABLES = _GRAFANA_VARIABLES | frozenset(
    {
        names.ENV_TOKEN,
        names.ENV_AGENT_SECRET,
        names.ENV_PROMETHEUS_URL,
        names.ENV_PROMETHEUS_BASIC_AUTH,
        names.ENV_PROMETHEUS_USER,
        names.ENV_PROMETHEUS_PASSWORD,
        names.ENV_URL,
        names.ENV_GRAFANA_PUBLIC_URL,
        names.ENV_DATABASE_URL,
        names.ENV_WORKERS,
        names.ENV_POOL,
        names.ENV_WORKER_MANIFEST,
        names.ENV_NAMESPACE,
        names.ENV_OWNER,
        names.ENV_DASHBOARDS,
        names.ENV_SCRAPE_INTERVAL,
        names.ENV_POD,
        names.ENV_POD_UID,
        names.ENV_RUN_ID,
        names.ENV_ATTEMPT,
        names.ENV_RANK,
        names.ENV_WORLD_SIZE,
        names.ENV_METRICS_FILE,
        names.ENV_CHECKPOINTS,
        names.ENV_SEED,
        names.ENV_DEADLINE,
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
    ours = CHECKOUT / ".tools" / "prometheus" / "bin" / "prometheus"
    found = os.environ.get("PROMETHEUS") or shutil.which("prometheus") or ours
    if Path(found).is_file():
        return Path(found).absolute()
    raise StackError(
        "Prometheus is missing: run `make install`, or install it (Debian: the package "
        "prometheus) and name the binary in $PROMETHEUS"
    )


def _web_assets(binary: Path) -> tuple[str, ...]:
    """Return the option that leads Debian's Prometheus, unpacked elsewhere, to its web pages."""
    assets = binary.resolve().parents[1] / "share" / "prometheus" / "web"
    return (f"--web.local-assets={assets}",) if assets.is_dir() else ()


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


def _python(module: str) -> tuple[str, ...]:
    """Return the command of a module, which imports nothing from the folder that it runs in."""
    return (sys.executable, "-P", "-m", module)


def _secret(path: Path) -> str:
    """Return the secret in a file, made up the first time."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32) + "\n")
    return path.read_text().strip()
