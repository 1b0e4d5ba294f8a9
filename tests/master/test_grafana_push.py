"""The controller's push: tried until Grafana has taken everything, and never waited for."""

import logging
import threading

import pytest
from prometheus_client import CollectorRegistry

import mlbench_master.grafana_push
from mlbench import ApiClient
from mlbench.contract import names
from mlbench_master.grafana_push import push
from mlbench_master.settings import GrafanaSettings
from tests.conftest import free_port, wait_for
from tests.support.grafana_server import ADMIN, serve_grafana
from tests.support.stacks import order_steps, run_to_end, service


def test_a_grafana_that_is_down_at_first_gets_everything_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mlbench_master.grafana_push, "_FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(mlbench_master.grafana_push, "_MAX_PAUSE_SECONDS", 0.1)
    registry, port = CollectorRegistry(), free_port()
    url = f"http://127.0.0.1:{port}"
    settings = GrafanaSettings(url, ADMIN, "http://prometheus:9090")
    thread = threading.Thread(target=push, args=(settings, registry, threading.Event()))
    thread.start()

    def requests(outcome: str) -> float:
        return (
            registry.get_sample_value("mlbench_grafana_requests_total", {"outcome": outcome}) or 0
        )

    wait_for(lambda: requests("failed") >= 5, what="it was tried five times")
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warnings == [f"Grafana at {url} cannot be reached. Runs are not affected. Trying again."]
    assert requests("done") == 0
    with serve_grafana(port) as server:
        thread.join(10)
        assert not thread.is_alive()
        assert requests("done") == len(server.log)
        assert "mlbench-run" in server.dashboards


@pytest.mark.parametrize(
    ("url", "token", "said"),
    [("not an address", ADMIN, "must be like"), ("http://h", "", "Set $GRAFANA_TOKEN")],
)
def test_wrong_settings_are_told_and_do_not_hold_the_end(
    caplog: pytest.LogCaptureFixture, url: str, token: str, said: str
) -> None:
    settings, stop = GrafanaSettings(url, token, "http://p:9090"), threading.Event()
    thread = threading.Thread(target=push, args=(settings, CollectorRegistry(), stop))
    thread.start()
    wait_for(lambda: said in caplog.text, what="it is told")
    stop.set()
    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_run_does_not_wait_for_a_grafana_that_hangs(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    with serve_grafana() as server:
        server.fault = "hang"
        monkeypatch.setenv(names.ENV_GRAFANA_URL, server.url)
        monkeypatch.setenv(names.ENV_GRAFANA_TOKEN, ADMIN)
        home = request.getfixturevalue("own_stack")
        with ApiClient.from_home(home) as client:
            run = order_steps(client, "not-held", steps=20)
            assert run_to_end(client, run).state == "FINISHED"
        assert ("GET", "/health") in server.log
        controller = service(home, "mlbench_master.controller")
        controller.terminate()
        controller.wait(4)  # less than one request to Grafana takes
