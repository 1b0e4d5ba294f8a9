"""The controller pushes dashboards to Grafana with retries, and never waits for it."""

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


def test_the_push_is_retried_until_grafana_is_up(
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
        name = "mlbench_grafana_requests_total"
        return registry.get_sample_value(name, {"outcome": outcome}) or 0

    wait_for(lambda: requests("failed") >= 5, what="five failed requests")
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
def test_invalid_settings_are_logged_and_do_not_block_the_end(
    caplog: pytest.LogCaptureFixture, url: str, token: str, said: str
) -> None:
    settings, stop = GrafanaSettings(url, token, "http://p:9090"), threading.Event()
    thread = threading.Thread(target=push, args=(settings, CollectorRegistry(), stop))
    thread.start()
    wait_for(lambda: said in caplog.text, what="the log message")
    stop.set()
    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.slow
def test_a_hung_grafana_does_not_delay_a_run(
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
        controller.wait(4)  # less than the timeout of a request to Grafana
