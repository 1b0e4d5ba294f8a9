"""Shared fixtures: a finished run, an active run, and an empty Grafana."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.grafana_server import GrafanaServer, serve_grafana
from tests.support.stacks import losses, order_steps, reload, run_to_end


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of a metrics file that does not exist yet."""
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home folder that does not exist yet."""
    return Home(tmp_path / "home")


@pytest.fixture
def server() -> Iterator[GrafanaServer]:
    """An empty Grafana."""
    with serve_grafana() as server:
        yield server


@pytest.fixture(scope="session")
def client(stack: Home) -> Iterator[ApiClient]:
    with ApiClient.from_home(stack) as client:
        yield client


@pytest.fixture(scope="session")
def finished(client: ApiClient) -> Iterator[Run]:
    """A finished run of 200 steps on two workers."""
    ended = run_to_end(client, order_steps(client, "finished", steps=200, rate=1000))
    assert ended.state == "FINISHED", ended.reason
    yield ended
    client.delete_run(ended.id).result()


@pytest.fixture(autouse=True)
def _no_run_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop and delete the runs that a test left on the shared stack."""
    if "stack" not in request.fixturenames:
        yield
        return
    client: ApiClient = request.getfixturevalue("client")
    before = {run.id for run in client.get_runs().result().value}
    yield
    left = [run for run in client.get_runs().result().value if run.id not in before]
    for run in reversed(left):
        if run.active:
            client.stop_run(run.id).result()
            run_to_end(client, run)
        client.delete_run(run.id).result()


@pytest.fixture
def active_run(client: ApiClient) -> Run:
    """An active run that records for a minute unless it is stopped."""
    ordered = order_steps(client, "active", steps=6000, rate=100)
    wait_for(lambda: losses(client, ordered), what="the run records")
    return reload(client, ordered)
