"""A run that is stopped, or fails, ends without Prometheus: the queue goes on, counts follow."""

import sys
from collections.abc import Iterator

import psutil
import pytest

from mlbench import ApiClient
from mlbench.home import Home
from mlbench.records import Run
from tests.conftest import wait_for
from tests.support.stacks import assert_counted, losses, order_command, order_steps, reload, service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def prometheus(stack: Home) -> Iterator[psutil.Process]:
    """The stack's Prometheus, which hangs in the test and goes on after it."""
    found = service(stack, "--storage.tsdb.path")
    yield found
    found.resume()


def wait_for_state(client: ApiClient, run: Run, state: str) -> None:
    wait_for(lambda: reload(client, run).state == state, 60.0, f"run {run.id} is {state}")


def test_runs_end_while_prometheus_hangs_and_are_counted_once_it_goes_on(
    client: ApiClient, prometheus: psutil.Process
) -> None:
    stopped = order_steps(client, "to-be-stopped", num_workers=1, steps=100_000, rate=100)
    wait_for(lambda: losses(client, stopped), what="it has recorded something")
    fail = f"{sys.executable} -c 'raise SystemExit(3)'"
    failed = order_command(client, "to-fail", fail, queue=True)
    last = order_steps(client, "to-finish", num_workers=1, queue=True, steps=20, rate=100)

    prometheus.suspend()
    client.stop_run(stopped.id).result()
    wait_for_state(client, stopped, "STOPPED")
    assert reload(client, stopped).delivery is None
    assert "not yet counted" in (reload(client, stopped).waiting or "")
    wait_for_state(client, failed, "FAILED")
    assert reload(client, failed).reason.startswith("rank 0 on")
    wait_for_state(client, last, "STARTED")

    prometheus.resume()
    wait_for_state(client, last, "FINISHED")
    for run in (stopped, failed, last):
        wait_for(lambda: reload(client, run).delivery, 30.0, f"run {run.id} is counted")  # noqa: B023
        counted = reload(client, run)
        assert_counted(counted)
        assert counted.delivery is not None
        assert counted.delivery.recorded > 0 or run.name == "to-fail"
        assert not counted.waiting
