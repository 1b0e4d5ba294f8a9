"""The processes of the local stack: command, environment, port and scrape target of each.

Prometheus is served under a secret path and asks for a password. The password alone would not do:
a browser that knows it sends it with every request to Prometheus, even one that a page of another
site makes. Such a page does not know the path.
"""

import importlib.util
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlbench.contract import names, pod_token
from mlbench.contract.atomic_files import write_private
from mlbench.contract.distribution import how_to_install
from mlbench.contract.errors import StackError
from mlbench.contract.login import Login, split_login, with_login
from mlbench.contract.pod_token import PodIdentity, derive
from mlbench.contract.shaping import with_tools
from mlbench.local import grafana_server, network
from mlbench.local.assets import CHECKOUT
from mlbench.local.home import Home, StackConnection

LOOPBACK = "127.0.0.1"
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - only if the user asks for it
_ALLOWED_HOSTS = "MLBENCH_ALLOWED_HOSTS"
_MASTER_PORT = 8000
_GRAFANA_PORT = 3000
_PROMETHEUS_PORT = 9090
_ALERTMANAGER_PORT = 9093
_CONTROLLER_PORT = 9300
_EXPORTER_PORT = 9400
_WORKER_PORT = 9500
_PORTS_TRIED = 200
_ANSWER_SECONDS = 5.0
# On a machine with fewer cores, reserving one would take too much from the runs.
_MIN_CORES = 4

# The user's own Grafana, and the webhook; for the controller only.
_OF_CONTROLLER = (
    *(names.ENV_GRAFANA_URL, names.ENV_GRAFANA_TOKEN, names.ENV_GRAFANA_PROMETHEUS_URL),
    names.ENV_NOTIFY_URL,
)
# Variables that the stack sets, or gives to the master alone. The user's shell may contain the
# values of another stack.
_OUR_VARIABLES = {value for key, value in vars(names).items() if key.startswith("ENV_")} - {
    names.ENV_DATASETS,
    names.ENV_FORK_SERVER,
    names.ENV_GIT_COMMIT,
    names.ENV_USER,
}


def stack_cores(cores: Collection[int]) -> frozenset[int] | None:
    """Return the cores of a machine that MLBench's services run on; None for all of them.

    Runs take the first free cores, so a run that leaves enough cores free does not share its cores
    with the services.
    """
    if len(cores) < _MIN_CORES:
        return None
    return frozenset(sorted(cores)[-max(1, len(cores) // _MIN_CORES) :])


@dataclass(frozen=True)
class Listen:
    """The addresses at which a stack listens."""

    host: str = LOOPBACK
    """Address or name of the API, such as 0.0.0.0 for all addresses of the machine."""
    port: int | None = None
    """Port of the API; None for a free one near 8000."""
    prometheus_port: int | None = None
    """Port of Prometheus; None for the port of the last start, or a free one near 9090."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the API."""
        return self.host in (LOOPBACK, "localhost")


@dataclass(frozen=True)
class Service:
    """A process that the supervisor keeps running."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    port: int | None = None
    """HTTP port; None without one."""
    health_path: str = "/metrics"
    """Path that responds with 200 once the service works."""
    optional: bool = False
    """Whether the stack continues without the service if it does not work."""
    is_worker: bool = False
    metrics_path: str = "/metrics"
    """Path that Prometheus scrapes."""
    login: Login | None = None
    """User and password that it requires; None without."""
    cores: frozenset[int] | None = None
    """Cores that it may run on; None for all."""

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    def answers(self) -> bool:
        """Return whether the service responds to a GET with 200."""
        if self.port is None:
            return True
        headers = {"Authorization": self.login.header} if self.login else {}
        with closing(HTTPConnection(self.address, timeout=_ANSWER_SECONDS)) as connection:
            try:
                connection.request("GET", self.health_path, headers=headers)
                return connection.getresponse().status == HTTPStatus.OK
            except (OSError, HTTPException):
                return False


THIS_MACHINE = Listen()
"""Default: the API listens on loopback only, at the default ports."""


class StackServices:
    """All processes of one stack. Ports and tokens stay the same while it runs."""

    def __init__(self, home: Home, workers: int, listen: Listen = THIS_MACHINE) -> None:
        self._home = home
        self._listen = listen
        self._worker_ports: dict[int, int] = {}
        # The supervisor starts the processes in another folder.
        self._started_in = Path.cwd()
        self._token = self._secret("token")
        self._agent_secret = self._secret("agent-secret")
        check_host(listen.host)
        master_port = port_exactly(listen.port) if listen.port else port_near(_MASTER_PORT)
        self._url = f"http://{LOOPBACK}:{master_port}"
        existing = find_existing_prometheus()
        self._prometheus_path = f"/{self._secret('prometheus-path')}"
        self._own_login = Login("mlbench", self._secret("prometheus-password"))
        if existing is None:
            prometheus_port = self._prometheus_port(listen.prometheus_port)
            own_url = f"http://{LOOPBACK}:{prometheus_port}{self._prometheus_path}"
            prometheus_url = with_login(own_url, self._own_login)
        elif listen.prometheus_port is None:
            prometheus_url = existing
        else:
            raise StackError(
                "--prometheus-port: the stack starts no Prometheus, because "
                f"${names.ENV_PROMETHEUS_URL} is set. Leave out one of the two."
            )
        self._prometheus_url, self._prometheus_login = split_login(prometheus_url)
        ability = network.probe()
        switch = ability.switch(home.switch)
        excluded = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
        self._environ = {
            **{key: value for key, value in os.environ.items() if key not in _OUR_VARIABLES},
            # The traffic of the stack bypasses the user's proxy.
            **dict.fromkeys(("no_proxy", "NO_PROXY"), f"{excluded},{LOOPBACK}".lstrip(",")),
            names.ENV_HOME: str(home.root),
        }
        self._all_cores = os.sched_getaffinity(0)
        self._cores = stack_cores(self._all_cores)
        self._master_environ = {
            # More arenas of glibc keep memory that the threads of requests have freed.
            "MALLOC_ARENA_MAX": "2",
            **self._environ,
            **_given(names.ENV_DATABASE_URL),
            **(_given(names.ENV_PROMETHEUS_WRITE_URL) if existing else {}),
            names.ENV_PROMETHEUS_URL: prometheus_url,
            # Users of the API do not get the password of a Prometheus that others use as well.
            names.ENV_PROMETHEUS_PUBLIC_URL: self._prometheus_url if existing else prometheus_url,
            names.ENV_URL: os.environ.get("MLBENCH_PUBLIC_URL") or self._url,
            names.ENV_WORKERS: str(workers),
            names.ENV_NO_BANDWIDTH: ability.no_bandwidth,
            names.ENV_NO_LATENCY: ability.no_latency,
        }
        if not listen.is_local:
            hosts = {listen.host, socket.gethostname(), os.environ.get(_ALLOWED_HOSTS, "")}
            self._master_environ[_ALLOWED_HOSTS] = ",".join(sorted(filter(None, hosts)))
        existing_grafana = _of_no_other_master(names.ENV_GRAFANA_URL)
        installed = None if existing_grafana else grafana_server.find_grafana(home=home)
        grafana_service = self._grafana(installed) if installed else None
        grafana_url = f"http://{grafana_service.address}" if grafana_service else None
        if existing_grafana:
            shown = os.environ.get(names.ENV_GRAFANA_PUBLIC_URL) or existing_grafana
            grafana_url = shown.rstrip("/")
        self.connection = StackConnection(
            *(self._url, self._token, prometheus_url, grafana_url),
            existing_prometheus=existing is not None,
            existing_grafana=existing_grafana is not None,
        )
        """How to reach the stack once it is ready."""
        config = os.environ.get(names.ENV_ALERTMANAGER_CONFIG)
        environ = with_tools(self._environ)
        controller_port, exporter_port = port_near(_CONTROLLER_PORT), port_near(_EXPORTER_PORT)
        network_service = Service(network.SERVICE, switch, environ, optional=True)
        self.fixed: tuple[Service, ...] = (
            *([] if existing else [self._prometheus(prometheus_port)]),
            *([self._alertmanager(Path(config).absolute())] if config else []),
            self._master(master_port),
            Service(
                name="controller",
                command=(*_python("mlbench_master.controller"), "--port", str(controller_port)),
                environ={**self._master_environ, **_given(*_OF_CONTROLLER)},
                port=controller_port,
            ),
            Service(
                name="exporter",
                command=(*_python("mlbench_exporter.app"), "--port", str(exporter_port)),
                environ=self._environ,
                port=exporter_port,
            ),
            *([grafana_service] if grafana_service else []),
            *([] if ability.no_bandwidth else [network_service]),
        )

    def worker(self, number: int) -> Service:
        """Return the agent of a worker pod."""
        pod = f"{names.LOCAL_POD_PREFIX}{number}"
        token_file = self._home.pod_token(pod)
        if number not in self._worker_ports:
            self._worker_ports[number] = port_near(_WORKER_PORT)
            pod_token.write(token_file, derive(PodIdentity(pod, uid=""), self._agent_secret))
        port = self._worker_ports[number]
        return Service(
            name=pod,
            command=(
                *_python("mlbench_worker.agent"),
                *("--pod", pod, "--folder", str(self._home.workers / pod)),
                *("--port", str(port), "--master", self._url, "--start-in", str(self._started_in)),
                *("--token-file", str(token_file)),
            ),
            environ={**self._environ, names.ENV_POD: pod},
            port=port,
            is_worker=True,
        )

    def _prometheus(self, port: int) -> Service:
        import bcrypt  # noqa: PLC0415 - only the start of a stack needs it

        binary = find_prometheus()  # before anything is written
        folder, login = self._home.prometheus, self._own_login
        # Prometheus checks the hash. It scrapes itself with the password in the other file.
        write_private(folder / "password", login.password)
        # The lowest cost of bcrypt is enough, because nobody can guess a random password.
        hashed = bcrypt.hashpw(login.password.encode(), bcrypt.gensalt(rounds=4)).decode()
        write_private(folder / "web.yml", f'basic_auth_users:\n  {login.user}: "{hashed}"\n')
        # Web pages of a Debian package that was unpacked into another folder.
        pages = binary.resolve().parents[1] / "share" / "prometheus" / "web"
        return self._protected(
            *("prometheus", port, str(binary)),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=1y",  # results are read long after the run
            f"--web.external-url={self._prometheus_url}",
            "--web.enable-remote-write-receiver",
            "--web.enable-admin-api",  # for the series of deleted runs
            *([f"--web.local-assets={pages}"] if pages.is_dir() else []),
        )

    def _alertmanager(self, config: Path) -> Service:
        if not config.is_file():
            raise StackError(
                f"${names.ENV_ALERTMANAGER_CONFIG}: file not found (got {config}). Name the "
                "configuration of Alertmanager, or unset the variable."
            )
        remedy = f", or unset ${names.ENV_ALERTMANAGER_CONFIG}"
        program = _find_program("Alertmanager", "prometheus-alertmanager", "alertmanager", remedy)
        port = port_near(_ALERTMANAGER_PORT)
        return self._protected(
            *("alertmanager", port, str(program)),
            f"--config.file={config}",
            f"--storage.path={self._home.root / 'alertmanager'}",
            # Messages contain this address, so it does not have the secret path.
            f"--web.external-url=http://{LOOPBACK}:{port}",
            f"--web.route-prefix={self._prometheus_path}",
            "--cluster.listen-address=",  # no peers
        )

    def _protected(self, name: str, port: int, *command: str) -> Service:
        """Return a server that is reached by the secret path and the password of Prometheus."""
        return Service(
            name=name,
            command=(
                *command,
                f"--web.listen-address={LOOPBACK}:{port}",
                f"--web.config.file={self._home.prometheus / 'web.yml'}",
                "--log.level=warn",
            ),
            cores=self._cores,
            environ=self._environ,
            port=port,
            health_path=f"{self._prometheus_path}/-/ready",
            metrics_path=f"{self._prometheus_path}/metrics",
            login=self._own_login,
        )

    def _master(self, port: int) -> Service:
        # Address for browsers: the user's own Grafana if it is set, else the stack's.
        variables = (names.ENV_GRAFANA_PUBLIC_URL, names.ENV_GRAFANA_URL)
        existing = filter(None, map(_of_no_other_master, variables))
        grafana_url = next(existing, self.connection.grafana_url)
        host = self._listen.host
        # The stack itself, and local clients, use the loopback address.
        others = [] if self._listen.is_local else [host]
        hosts = others if host == _ALL_ADDRESSES else [LOOPBACK, *others]
        return Service(
            name="master",
            command=(
                *_python("gunicorn"),
                *("--config", "python:mlbench_master.gunicorn_conf"),
                *(word for host in hosts for word in ("--bind", f"{host}:{port}")),
            ),
            environ={
                "MLBENCH_LIMIT_CPUS": str(len(self._all_cores)),
                **self._master_environ,
                **({names.ENV_GRAFANA_PUBLIC_URL: grafana_url} if grafana_url else {}),
                names.ENV_TOKEN: self._token,
                names.ENV_AGENT_SECRET: self._agent_secret,
            },
            port=port,
            health_path="/readyz",
            cores=self._cores,
        )

    def _grafana(self, installed: grafana_server.InstalledGrafana) -> Service:
        port = port_near(_GRAFANA_PORT)
        password, login = self._secret("grafana-password"), self._prometheus_login
        settings = grafana_server.settings(
            self._home.grafana, LOOPBACK, port, password, self._prometheus_url, login
        )
        return Service(
            name="grafana",
            command=installed.command(),
            # Without settings of another Grafana, such as its database.
            environ={k: v for k, v in self._environ.items() if not k.startswith("GF_")} | settings,
            port=port,
            health_path="/api/health",
            optional=True,
            cores=self._cores,
        )

    def _prometheus_port(self, port: int | None) -> int:
        """Return a port for Prometheus, and remember it for the next start."""
        file = self._home.root / "prometheus-port"
        if port is None:
            last = file.read_text().strip() if file.exists() else ""
            usual = int(last) if last.isdecimal() else _PROMETHEUS_PORT
            port = usual if _take(usual) else port_near(_PROMETHEUS_PORT)
        else:
            port_exactly(port, "--prometheus-port")
        write_private(file, f"{port}\n")
        return port

    def _secret(self, name: str) -> str:
        """Return a secret of this home folder, which is made up the first time."""
        path = self._home.root / name
        known = path.read_text().strip() if path.exists() else ""
        if not known:  # a power cut leaves an empty file
            known = secrets.token_urlsafe(32)
            write_private(path, f"{known}\n")
        return known


def port_near(usual: int) -> int:
    """Take the first free port from ``usual`` on; raise StackError if none of 200 is free."""
    for port in range(usual, usual + _PORTS_TRIED):
        if _take(port):
            return port
    raise StackError(f"no port from {usual} to {usual + _PORTS_TRIED - 1} is free")


def port_exactly(port: int, option: str = "--port") -> int:
    """Take this port, or raise StackError if another program uses it."""
    if not _take(port):
        raise StackError(f"{option}: port {port} is used by another program. Leave out {option}.")
    return port


def check_host(host: str) -> None:
    """Raise StackError unless this machine has an IPv4 address."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except OSError:
        raise StackError(
            f"--host: not an IPv4 address or name of this machine (got {host}). Leave it out for "
            f"this machine alone, or give {_ALL_ADDRESSES} for all of its addresses."
        ) from None


def _take(port: int) -> bool:
    """Mark a free port as ours until this process ends; false if it is taken.

    The mark keeps it from other stacks that start now. It is an abstract Unix socket: no file.
    """
    mark = socket.socket(socket.AF_UNIX)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            mark.bind(f"\0mlbench-port-{port}")
        except PermissionError:
            raise StackError(
                f"port {port}: reserved for root. Choose a port of at least 1024."
            ) from None
        except OSError:
            mark.close()
            return False
    mark.detach()
    return True


def find_prometheus() -> Path:
    """Return the Prometheus binary: $PROMETHEUS, or on the path, or where `make` puts it.

    StackError if none is found.
    """
    ours = CHECKOUT / ".tools" / "prometheus" / "bin" / "prometheus"
    return _find_program("Prometheus", "prometheus", str(ours))


def _find_program(title: str, package: str, other: str, remedy: str = "") -> Path:
    """Return a program: the one that a variable names, or of its package, or another one."""
    variable = title.upper()
    path = os.environ.get(variable) or shutil.which(package) or shutil.which(other)
    if path and Path(path).is_file():
        return Path(path).absolute()
    raise StackError(
        f"{title} not found. Install it (Debian and Ubuntu: `apt install {package}`; "
        f"others: https://prometheus.io/download), or set ${variable} to its binary{remedy}."
    )


def find_existing_prometheus() -> str | None:
    """Return the address of the Prometheus that the stack uses instead of its own, or None.

    StackError if it is not an address, or a setting needs the stack's own.
    """
    url = _of_no_other_master(names.ENV_PROMETHEUS_URL)
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise StackError(
            f"${names.ENV_PROMETHEUS_URL}: must be a URL such as http://user:password@host:9090 "
            "(got another text, which is not shown because it may contain a password)"
        )
    own = (names.ENV_ALERTMANAGERS, names.ENV_ALERTMANAGER_CONFIG, names.ENV_EXTERNAL_LABELS)
    for name in own:
        if os.environ.get(name):
            raise StackError(
                f"${name}: needs the stack's own Prometheus, but ${names.ENV_PROMETHEUS_URL} is "
                "set. Configure it in that Prometheus, and unset this variable."
            )
    return url


def alertmanager_targets(urls: str) -> list[dict[str, Any]]:
    """Return Prometheus's targets for the URLs of Alertmanagers, separated by commas."""
    targets = []
    for url in filter(None, map(str.strip, urls.split(","))):
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc:
            raise StackError(
                f"${names.ENV_ALERTMANAGERS}: must be URLs separated by commas, without passwords, "
                f"such as http://localhost:9093 (got {url!r})"
            )
        labels = {
            "__url_scheme": parts.scheme,
            "__url_path": f"{parts.path.rstrip('/')}/api/v2/alerts",
        }
        targets.append({"targets": [parts.netloc], "labels": labels})
    return targets


def external_labels(text: str) -> dict[str, str]:
    """Return the labels in ``cluster=lab,team=vision``; StackError for another form."""
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    if not all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) and value for name, _, value in pairs):
        raise StackError(
            f"${names.ENV_EXTERNAL_LABELS}: must be NAME=VALUE, separated by commas, such as "
            f"cluster=lab,team=vision (got {text!r})"
        )
    return {name: value for name, _, value in pairs}


def check_installed() -> None:
    """Raise StackError if an extra is missing that the stack needs."""
    needed = {"falcon": "master", "torch": "worker", "psutil": "exporter"}
    missing = [extra for module, extra in needed.items() if not importlib.util.find_spec(module)]
    if missing:
        raise StackError(f"packages are missing. Run {how_to_install(*missing)}.")


def _of_no_other_master(variable: str) -> str | None:
    """Return the value of a variable, unless it describes the master at $MLBENCH_URL."""
    return None if os.environ.get(names.ENV_URL) else os.environ.get(variable) or None


def _given(*variables: str) -> dict[str, str]:
    """Return the variables that the user has set."""
    return {name: os.environ[name] for name in variables if name in os.environ}


def _python(module: str) -> tuple[str, ...]:
    # -P: import nothing from the folder that the process runs in.
    return (sys.executable, "-P", "-m", module)
