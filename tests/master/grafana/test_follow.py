"""Following runs: Grafana is brought up to date whenever it can be, and never waited for."""

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from master.database import database
from master.grafana import annotations, follow
from master.grafana.client import Grafana
from master.grafana.follow import Follower, count_requests
from master.models import Run
from master.settings import GrafanaSettings
from tests.conftest import free_port, wait_for
from tests.master.grafana.rules import Fault, GrafanaState
from tests.master.grafana.server import ADMIN, EDITOR, GrafanaServer
from tests.master.making import make_run

End = Callable[[], None]
Start = Callable[[str, str], End]

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch, dashboards: Path) -> None:
    """Look often; push the dashboards of the test."""
    monkeypatch.setattr(follow, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(follow, "_LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(follow, "grafana_folder", lambda: dashboards.parent)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def start(registry: CollectorRegistry, caplog: pytest.LogCaptureFixture) -> Iterator[Start]:
    """Starts to follow in a Grafana at an address, with a token; returns what ends it."""
    caplog.set_level(logging.INFO, "master.grafana.follow")
    count = count_requests(registry)
    ends: list[End] = []

    def start(url: str, token: str) -> End:
        follower = Follower(GrafanaSettings(url, token, "http://prometheus:9090"), count)
        stop = threading.Event()

        def run() -> None:
            follower.run(stop)
            database.close()  # this thread's connection

        thread = threading.Thread(target=run)
        thread.start()

        def end() -> None:
            stop.set()
            thread.join(10)

        ends.append(end)
        return end

    yield start
    for end in ends:
        end()


def started_run() -> Run:
    return make_run(started_at=time.time())


def finish(run: Run) -> None:
    run.state, run.finished_at = "FINISHED", time.time()
    run.save()


def kinds(state: GrafanaState) -> list[str]:
    return [one["tags"][2] for one in state.annotations]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_it_pushes_and_annotates_what_runs_do(
    server: GrafanaServer, state: GrafanaState, start: Start
) -> None:
    run = started_run()
    start(server.url, ADMIN)
    wait_for(lambda: kinds(state) == ["started"], what="the start is annotated")
    assert state.dashboards.keys() == {"mlbench-run", "mlbench-runs"}
    finish(run)
    wait_for(lambda: kinds(state) == ["started", "finished"], what="the end is annotated")
    began, end = (one["time"] for one in state.annotations)
    assert f"&amp;from={began}&amp;to=now" in state.annotations[0]["text"]
    assert f"&amp;from={began}&amp;to={end}" in state.annotations[1]["text"], "the whole run"


def test_where_nothing_is_new_grafana_is_left_alone(
    server: GrafanaServer, state: GrafanaState, start: Start
) -> None:
    started_run()
    start(server.url, ADMIN)
    wait_for(lambda: kinds(state) == ["started"], what="the start is annotated")
    asked = len(state.log)
    time.sleep(0.3)  # fifteen looks
    assert len(state.log) == asked


def test_another_controller_writes_nothing_again(
    server: GrafanaServer, state: GrafanaState, start: Start
) -> None:
    finish(started_run())
    end = start(server.url, ADMIN)
    wait_for(lambda: len(kinds(state)) == 2, what="both are annotated")
    end()
    written = len(state.written())
    asked = len(state.log)
    start(server.url, ADMIN)
    wait_for(lambda: ("GET", "/annotations", 200) in state.log[asked:], what="it has looked")
    last = started_run()
    wait_for(lambda: len(kinds(state)) == 3, what="the next run is annotated")
    assert f"run:{last.id}" in state.annotations[-1]["tags"]
    assert len(state.written()) == written + 1


def test_a_grafana_that_is_down_at_the_start_is_followed_once_it_is_up(
    start: Start, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    finish(started_run())
    port = free_port()
    start(f"http://127.0.0.1:{port}", ADMIN)

    def failures() -> float:
        return (
            registry.get_sample_value("mlbench_grafana_requests_total", {"outcome": "failed"})
            or 0.0
        )

    wait_for(lambda: failures() >= 5, what="it was tried five times")
    assert len(warnings(caplog)) == 1, "and told once"
    assert "cannot be reached; runs go on" in warnings(caplog)[0]

    server = GrafanaServer(GrafanaState(), port=port)
    server.start()
    try:
        wait_for(lambda: kinds(server.state) == ["started", "finished"], what="all is annotated")
        wait_for(lambda: "works again" in caplog.text, what="it is told")
    finally:
        server.stop()
    assert server.state.dashboards.keys() == {"mlbench-run", "mlbench-runs"}
    assert registry.get_sample_value("mlbench_grafana_requests_total", {"outcome": "done"})


def test_a_grafana_that_comes_back_empty_gets_everything_again(
    server: GrafanaServer, state: GrafanaState, start: Start
) -> None:
    started_run()
    start(server.url, ADMIN)
    wait_for(lambda: kinds(state) == ["started"], what="the start is annotated")
    state.fault = "500"
    finish(started_run())  # there is something to ask for
    wait_for(lambda: ("GET", "/api/annotations", 0) in _asked(state), what="it was asked")
    with state.lock:
        state.dashboards.clear()
        state.folders.clear()
        state.annotations.clear()
    state.fault = ""
    wait_for(lambda: len(kinds(state)) == 3, what="all is annotated")
    assert state.dashboards.keys() == {"mlbench-run", "mlbench-runs"}


def _asked(state: GrafanaState) -> set[tuple[str, str, int]]:
    return {(method, path.partition("?")[0], status) for method, path, status in state.log}


@pytest.mark.parametrize("fault", ["hang", "garbage", "error page", "list", "500"])
def test_a_grafana_that_does_not_work_is_told_once_and_does_not_hold_the_end(
    server: GrafanaServer,
    state: GrafanaState,
    start: Start,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
) -> None:
    state.fault = fault
    if fault == "hang":  # the others answer, however busy this machine is
        monkeypatch.setattr(follow, "Grafana", functools.partial(Grafana, timeout_seconds=0.1))
    started_run()
    start(server.url, ADMIN)
    wait_for(lambda: len(state.log) + (fault == "hang") >= 1, what="it was asked")
    wait_for(lambda: warnings(caplog), what="it is told")
    time.sleep(0.3)
    assert len(warnings(caplog)) == 1
    assert state.annotations == []


def test_a_wrong_token_is_told(
    server: GrafanaServer, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    start(server.url, "glsa_wrong")
    wait_for(lambda: warnings(caplog), what="it is told")
    assert "does not know the token" in warnings(caplog)[0]
    assert "glsa_wrong" not in caplog.text


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [("not an address", ADMIN, "address must be like"), ("http://h", "", r"set \$GRAFANA_TOKEN")],
)
def test_wrong_settings_are_told_and_tried_no_harder(
    start: Start, caplog: pytest.LogCaptureFixture, url: str, token: str, said: str
) -> None:
    start(url, token)
    wait_for(lambda: warnings(caplog), what="it is told")
    assert said.replace("\\", "") in warnings(caplog)[0]


def test_a_token_that_may_only_annotate_annotates(
    server: GrafanaServer, state: GrafanaState, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    started_run()
    start(server.url, EDITOR)
    wait_for(lambda: kinds(state) == ["started"], what="the start is annotated")
    wait_for(lambda: warnings(caplog), what="it is told")
    assert "the token lacks a right" in warnings(caplog)[0]
    assert state.dashboards == {}


def test_a_database_that_is_away_does_not_end_it(
    server: GrafanaServer, state: GrafanaState, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OSError("away"), OSError("away")])

    def newest_runs() -> list[Run]:
        if failure := next(failures, None):
            raise failure
        return annotations.newest_runs()

    monkeypatch.setattr(follow, "newest_runs", newest_runs)
    started_run()
    start(server.url, ADMIN)
    wait_for(lambda: kinds(state) == ["started"], what="the start is annotated")
