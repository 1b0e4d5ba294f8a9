"""The real controller, in a stack of its own: a run is annotated, and never waits for Grafana."""

import pytest

from master.times import parse
from mlbench import ApiClient, names
from mlbench.home import Home
from tests.chain.processes import service
from tests.conftest import wait_for
from tests.master.grafana.rules import GrafanaState
from tests.master.grafana.server import ADMIN, GrafanaServer
from tests.mlbench.conftest import wait_for_end
from tests.ordering import order_steps


@pytest.fixture
def home(
    server: GrafanaServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Home:
    """A stack whose controller follows in the small Grafana."""
    monkeypatch.setenv(names.ENV_GRAFANA_URL, server.url)
    monkeypatch.setenv(names.ENV_GRAFANA_TOKEN, ADMIN)
    found: Home = request.getfixturevalue("own_stack")
    return found


def kinds(state: GrafanaState, run_id: int) -> list[str]:
    return [one["tags"][2] for one in state.annotations if f"run:{run_id}" in one["tags"]]


def test_a_run_is_annotated_once_though_the_controller_was_killed(
    home: Home, state: GrafanaState
) -> None:
    with ApiClient.from_home(home) as client:
        run = order_steps(client, "annotated", steps=300, rate=100)
        wait_for(lambda: kinds(state, run.id) == ["started"], what="the start is annotated")
        service(home, "master.controller").kill()
        ended = wait_for_end(client, run)
        assert ended.state == "FINISHED", ended.reason
        wait_for(lambda: "finished" in kinds(state, run.id), what="the end is annotated")
        again = order_steps(client, "again", steps=20)
        wait_for_end(client, again)
        wait_for(lambda: len(kinds(state, again.id)) == 2, what="the next run is annotated")
    assert kinds(state, run.id) == ["started", "finished"]
    began, end = (one["time"] for one in state.annotations[:2])
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert began == pytest.approx(parse(ended.started_at) / 1000, abs=1)
    assert end == pytest.approx(parse(ended.finished_at) / 1000, abs=1)


def test_a_run_does_not_wait_for_a_grafana_that_hangs(home: Home, state: GrafanaState) -> None:
    state.fault = "hang"
    with ApiClient.from_home(home) as client:
        run = order_steps(client, "not-held", steps=20)
        assert wait_for_end(client, run).state == "FINISHED"
    controller = service(home, "master.controller")
    controller.terminate()
    controller.wait(4)  # less than one request to Grafana takes
