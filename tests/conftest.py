"""Shared fixtures: a real Prometheus, databases of both kinds, and local stacks."""

import errno
import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, islice
from pathlib import Path

import bcrypt
import certifi
import httpx
import pytest
from falcon.testing import TestClient
from falcon.testing.helpers import DEFAULT_HOST
from peewee import Database
from playwright.sync_api import Browser

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.errors import StackError
from mlbench.contract.login import Login, with_login
from mlbench.contract.pod_token import PodIdentity, derive
from mlbench.local import launch
from mlbench.local.home import Home
from mlbench.local.stack_services import find_prometheus
from mlbench_master.database.models import TABLES, open_database
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.settings import LOOPBACK_HOSTS, InstallationLimits, Settings
from tests.support.chromium import NoChromiumError, running_chromium
from tests.support.leftovers import watch_this_session
from tests.support.postgres import PostgresServer, serve

_CONFIG = Path(__file__).parents[1] / "prometheus" / "prometheus.yml"

_ROOM_IN_MEMORY = 4 << 30

_BROWSER = pytest.StashKey[Browser]()

USER_TOKEN = "user-token"
AGENT_SECRET = "agent-secret"
AGENT_TOKEN = derive(PodIdentity("w-0", ""), AGENT_SECRET)
"""Token of the pod w-0, on which the master's tests put rank 0."""


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def as_pod(name: str, uid: str = "") -> dict[str, str]:
    """Return the header with which a pod's agent calls the master."""
    return {"Authorization": f"Bearer {derive(PodIdentity(name, uid), AGENT_SECRET)}"}


def wait_for(condition: Callable[[], object], seconds: float = 180.0, what: str = "") -> None:
    """Wait until a condition holds. The default timeout allows for a busy machine."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds} s: {what or condition}"
        time.sleep(min(max(0.005, waited / 20), 0.1))  # frequent polling would slow a stack down


@pytest.fixture(scope="session")
def prometheus_binary() -> Path:
    try:
        return find_prometheus()
    except StackError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def promtool(prometheus_binary: Path) -> Path:
    beside = prometheus_binary.with_name("promtool")
    found = beside if beside.is_file() else shutil.which("promtool")
    if not found:
        pytest.skip("promtool is missing: it comes with Prometheus")
    return Path(found)


@dataclass
class PrometheusServer:
    """A real Prometheus with an empty disk. It accepts remote write and scrapes nothing."""

    binary: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    login: Login | None = None

    @property
    def url(self) -> str:
        url = f"http://127.0.0.1:{self.port}"
        return with_login(url, self.login) if self.login else url

    def start(self, *options: str) -> None:
        """Start the server, with further options if any, and wait until it accepts samples."""
        options = ("--web.enable-remote-write-receiver", *options)
        if self.login:
            web = self.folder / "web.yml"
            hashed = bcrypt.hashpw(self.login.password.encode(), bcrypt.gensalt(4)).decode()
            web.write_text(json.dumps({"basic_auth_users": {self.login.user: hashed}}))
            options = (f"--web.config.file={web}", *options)
        with (self.folder / "prometheus.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.binary,
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(self._ready, what="Prometheus is ready")

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def lose_everything(self) -> None:
        """Restart the server with an empty disk."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.start()

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready").is_success
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="session")
def shared_prometheus(
    prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """A Prometheus shared by tests that only add series, each with unique names."""
    yield from _serve(prometheus_binary, tmp_path_factory.mktemp("prometheus"))


@pytest.fixture
def own_prometheus(prometheus_binary: Path, tmp_path: Path) -> Iterator[PrometheusServer]:
    """A Prometheus for a test that kills it or needs it empty."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    yield from _serve(prometheus_binary, folder)


def _serve(binary: Path, folder: Path) -> Iterator[PrometheusServer]:
    shutil.copy(_CONFIG, folder)
    server = PrometheusServer(binary, folder, free_port())
    server.start()
    yield server
    if server.process is not None:
        server.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server shared by all tests."""
    with serve() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> Iterator[str]:
    """Name of a database with all tables, emptied for each test because that is fast."""
    with postgres.new_database() as name:
        open_database(postgres.url(name)).close()
        yield name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="skip tests with a process or server")
    parser.addoption("--with-prometheus", action="store_true", help="only tests that start one")


def pytest_configure(config: pytest.Config) -> None:
    """Configure every test process."""
    if not config.option.quick and "PYTEST_XDIST_WORKER" not in os.environ:
        config.add_cleanup(watch_this_session())
    gc.disable()  # until collection has finished
    if config.option.quick:  # a test skipped midway leaves its resources open
        for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
            config.addinivalue_line("filterwarnings", f"ignore::{warning}")
    # Spinning OpenMP threads would take cores from other tests.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # SQLite and Prometheus sync often, so their files are in memory if there is room.
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > _ROOM_IN_MEMORY:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """With --quick, skip each test that is about to start a process or server."""
    if session.config.option.quick:
        processes = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
        starts = {*processes, "socket.bind"}
        sys.addaudithook(lambda event, _: _skip_start() if event in starts else None)


def _skip_start() -> None:
    """Skip the calling test. In other threads, fail as if no process could be started."""
    if threading.current_thread() is threading.main_thread():
        pytest.skip("it starts a process or a server")
    raise BlockingIOError(errno.EAGAIN, "a quick test starts neither")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Append the reason of each skipped test to the file named by $MLBENCH_SKIPPED."""
    path = os.environ.get("MLBENCH_SKIPPED")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:  # workers report to this process
        with Path(path).open("a") as file:
            for report in terminalreporter.stats.get("skipped", []):
                file.write(f"{report.longrepr[2].removeprefix('Skipped: ')}\n")


@pytest.fixture(scope="session", autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make all httpx clients trust one authority. Loading all takes 25 ms per client."""
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    path.write_text(first + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `both_databases` on each kind of database."""
    marked = metafunc.definition.get_closest_marker("both_databases")
    if marked and "database_url" in metafunc.fixturenames:
        metafunc.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


@pytest.hookimpl(trylast=True)  # after options such as -m have deselected tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests by option, and order the others so that the session ends soonest.

    Each process of pytest takes an equal share of this order, and later takes tests from the end of
    the longest share. The first process has the tests of the shared stack and the browser, so that
    no other process starts them. The other shares begin with the files that have slow tests.
    """
    used = {item: set(getattr(item, "fixturenames", ())) for item in items}
    if config.option.quick:  # they would be skipped one by one, and Chromium's driver would hang
        programs = {"prometheus_binary", "chromium"}
        items[:] = [item for item in items if not programs & used[item]]
    if config.option.with_prometheus:
        items[:] = [item for item in items if "prometheus_binary" in used[item]]
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow_files)
    shared = [item for item in items if {"stack", "chromium"} & used[item]]
    rest = [item for item in items if not {"stack", "chromium"} & used[item]]
    slow = [item for item in rest if item.path in slow_files]
    files = [list(file) for _, file in groupby(slow, lambda item: item.path)]
    quick = iter(rest[len(slow) :])
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    share = len(items) // processes
    items[:] = [*shared, *islice(quick, max(0, share - len(shared)))]
    for process in range(1, processes):
        first = list(chain.from_iterable(files[process - 1 :: processes - 1]))
        items += [*first, *islice(quick, max(0, share - len(first)))]
    if processes == 1:
        items += slow
    items += quick


def pytest_collection_finish() -> None:
    """Exclude long-lived objects from garbage collection, which took a sixth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def chromium(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """A browser shared by all tests; each test gets a separate profile.

    Extensions import this fixture, and pytest treats the import as another fixture. But a process
    can run only one browser.
    """
    if (running := pytestconfig.stash.get(_BROWSER, None)) is not None:
        yield running
        return
    try:
        with running_chromium() as browser:
            pytestconfig.stash[_BROWSER] = browser
            yield browser
    except NoChromiumError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SQLite file with all tables. Tests copy it, because creating tables takes longer."""
    path = tmp_path_factory.mktemp("empty") / "mlbench.db"
    open_database(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path, empty_sqlite: Path) -> str:
    """URL of an empty database: SQLite, unless the test requests both kinds."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{shutil.copy(empty_sqlite, tmp_path)}"
    server: PostgresServer = request.getfixturevalue("postgres")
    name: str = request.getfixturevalue("postgres_database")
    server.clear(name, [table._meta.table_name for table in reversed(TABLES)])
    return server.url(name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty database, with all models bound to it."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=Home(tmp_path / "home"),
        database_url="unused",
        prometheus_url="http://127.0.0.1:9",
        token=USER_TOKEN,
        agent_secret=AGENT_SECRET,
        workers=2,
        limits=InstallationLimits(workers=4, cpus=2),
        # The host name that falcon's test client uses.
        allowed_hosts=LOOPBACK_HOSTS | {DEFAULT_HOST},
    )


@pytest.fixture
def api(
    settings: Settings, shared_prometheus: PrometheusServer, database: Database
) -> Iterator[TestClient]:
    """The app over an empty database and a real Prometheus, called with the user's token."""
    with closing(PrometheusClient(shared_prometheus.url)) as prometheus:
        yield call_as_user(settings, prometheus)


def call_as_user(settings: Settings, prometheus: PrometheusClient) -> TestClient:
    """Return a test client of an app that sends the user's token."""
    # A local import, because the process that distributes the tests does not need the master.
    from mlbench_master.app import create_app  # noqa: PLC0415

    headers = {"Authorization": f"Bearer {USER_TOKEN}"}
    return TestClient(create_app(settings, prometheus), headers=headers)


@contextmanager
def running_stack(
    prometheus_binary: Path, root: Path, workers: int = 2, **environ: str
) -> Iterator[Home]:
    """Run a local stack until the block ends, with these settings in its environment.

    By default, its agents keep no fork server ready. Starting one takes seconds per agent, and few
    benchmarks would save that time.
    """
    home = Home(root)
    here = {"PROMETHEUS": str(prometheus_binary), names.ENV_FORK_SERVER: "0"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**here, **environ}.items():
            patch.setenv(name, value)
        launch.start_detached(home, workers=workers)
    try:
        yield home
    finally:
        launch.stop(home)


@pytest.fixture(scope="session")
def stack(prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A local stack with two workers, for tests that leave it unchanged."""
    root = tmp_path_factory.mktemp("stack")
    with running_stack(prometheus_binary, root, MLBENCH_FORK_SERVER="1") as home:
        yield home


@pytest.fixture
def own_stack(prometheus_binary: Path, tmp_path: Path) -> Iterator[Home]:
    """A local stack with two workers, for a test that kills parts of it."""
    with running_stack(prometheus_binary, tmp_path / "stack") as home:
        yield home


@pytest.fixture
def client(stack: Home) -> Iterator[ApiClient]:
    """A client of the shared stack. It stops runs that a test left active."""
    with ApiClient.from_home(stack) as client:
        yield client
        active = [run for run in client.get_runs().result().value if run.active]
        for run in reversed(active):
            client.stop_run(run.id).result()
        wait_for(
            lambda: not any(client.get_run(run.id).result().value.active for run in active),
            what="the remaining runs end",
        )
