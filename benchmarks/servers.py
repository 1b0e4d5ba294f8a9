"""Servers for a measurement: a real Prometheus, the real master, or any other."""

import http.client
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from mlbench.contract import names
from mlbench.contract.pod_token import PodIdentity, derive
from mlbench.local.assets import prometheus_folder
from mlbench.local.home import Home
from mlbench.local.pool import LocalWorker, PoolFiles
from mlbench.local.stack_services import find_prometheus, port_near
from mlbench_master.database.models import open_database

_READY_SECONDS = 60.0
_END_SECONDS = 10.0
# Credentials of a master that runs only during a measurement.
TOKEN = "benchmark"  # noqa: S105 - on loopback alone
_AGENT_SECRET = "benchmark-agents"  # noqa: S105 - on loopback alone
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Download:
    """An answer, and how many seconds after the request its body began and ended."""

    body: bytes
    first_byte_seconds: float
    seconds: float


@dataclass(frozen=True)
class Source:
    """A server on this machine, and the headers of requests to it."""

    port: int
    headers: Mapping[str, str]

    def get(self, path: str, statuses: Collection[int] = (200,)) -> Download:
        """Return an answer.

        Raises:
            AssertionError: it has another status.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT_SECONDS)
        connection.connect()
        begin = time.perf_counter()
        connection.request("GET", path, headers=dict(self.headers))
        response = connection.getresponse()
        chunks = [response.read1(_CHUNK_BYTES)]
        first_byte_seconds = time.perf_counter() - begin
        while chunks[-1]:
            chunks.append(response.read1(_CHUNK_BYTES))
        seconds = time.perf_counter() - begin
        connection.close()
        body = b"".join(chunks)
        assert response.status in statuses, (path, response.status, body)
        return Download(body, first_byte_seconds, seconds)


@dataclass(frozen=True)
class Master(Source):
    """A running master, with the headers that a user's requests carry."""

    worker: int
    """The id of the process that answers requests."""
    prometheus_url: str


@contextmanager
def measured_master(folder: Path) -> Iterator[Master]:
    """Run Prometheus, API and controller, with the database open in this process too."""
    database = open_database(database_url(folder))
    with running_prometheus(folder) as url, running_master(folder, url) as master:
        yield master
    database.close()


@contextmanager
def running_prometheus(folder: Path) -> Iterator[str]:
    """Run Prometheus with an empty disk, and give its URL."""
    shutil.copy(prometheus_folder() / "prometheus.yml", folder)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        str(find_prometheus()),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
    ]
    with running("prometheus", command, folder, {}, f"{url}/-/ready"):
        yield url


@contextmanager
def running_master(folder: Path, prometheus_url: str) -> Iterator[Master]:
    """Run API and controller as the local stack does, on the database at ``database_url``.

    It has no workers: samples are posted, or appended to streams.
    """
    controller = [sys.executable, "-m", "mlbench_master.controller", "--port", str(free_port())]
    with (
        running_api(folder, prometheus_url) as master,
        running("controller", controller, folder, _settings(folder, prometheus_url)),
    ):
        yield master


@contextmanager
def running_api(folder: Path, prometheus_url: str) -> Iterator[Master]:
    """Run the API alone, so that runs and pods stay as they are in the database."""
    port = free_port()
    environ = _settings(folder, prometheus_url)
    ready = f"http://127.0.0.1:{port}/readyz"
    with running("master", gunicorn(port), folder, environ, ready) as process:
        [worker] = process.children()
        yield Master(port, {"Authorization": f"Bearer {TOKEN}"}, worker.pid, prometheus_url)


def know_pods(folder: Path, pods: Sequence[str]) -> None:
    """Have the controller know these worker pods, as if a supervisor had started them."""
    PoolFiles(Home(folder / "home")).write_status([LocalWorker(pod, alive=True) for pod in pods])


def agent_token(pod: str) -> str:
    """Return what a pod's agent shows."""
    return derive(PodIdentity(pod, ""), _AGENT_SECRET)


def _settings(folder: Path, prometheus_url: str) -> dict[str, str]:
    return {
        names.ENV_HOME: str(folder / "home"),
        names.ENV_DATABASE_URL: database_url(folder),
        names.ENV_PROMETHEUS_URL: prometheus_url,
        names.ENV_TOKEN: TOKEN,
        names.ENV_AGENT_SECRET: _AGENT_SECRET,
        "MALLOC_ARENA_MAX": "2",  # as the stack and the image set it
    }


def gunicorn(port: int, *app: str) -> list[str]:
    """Return the command that serves the API, or another app, with the master's settings."""
    config = ("--config", "python:mlbench_master.gunicorn_conf", "--bind", f"127.0.0.1:{port}")
    return [sys.executable, "-m", "gunicorn", *config, *app]


def database_url(folder: Path) -> str:
    """Return the database of a measurement."""
    return f"sqlite:///{folder / 'mlbench.db'}"


def free_port() -> int:
    """Return a port that nothing listens on."""
    return port_near(19090)


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    ready_url: str | None = None,
) -> Iterator[psutil.Popen]:
    """Run a server, from when it answers until the block ends; its log is in the folder."""
    path = folder / f"{name}.log"
    with path.open("ab") as log:
        # A proxy of the user's is no way to this machine itself.
        env = {**os.environ, "no_proxy": "127.0.0.1", **environ}
        process = psutil.Popen(command, env=env, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while ready_url and not _responds(ready_url):
            assert process.poll() is None, path.read_text()
            assert time.monotonic() < deadline, path.read_text()
            time.sleep(0.05)
        yield process
    finally:
        family: list[psutil.Process] = [process]
        with suppress(psutil.NoSuchProcess):
            family += process.children(recursive=True)  # not every server ends its children
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.terminate()
        _, alive = psutil.wait_procs(family, _END_SECONDS)
        for member in alive:
            member.kill()


def _responds(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.HTTPError:
        return False
