"""A run that is stopped, or fails, ends without Prometheus: the queue goes on, counts follow."""

import signal
import sys
from collections.abc import Iterator

import psutil
import pytest

from mlbench import ApiClient
from mlbench.client import Run
from mlbench.home import Home
from tests.conftest import wait_for
from tests.stacks import service

pytestmark = pytest.mark.slow


@pytest.fixture
def client(stack: Home) -> Iterator[ApiClient]:
    with ApiClient.from_home(stack) as found:
        yield found


@pytest.fixture
def prometheus(stack: Home) -> Iterator[psutil.Process]:
    """The stack's Prometheus, which hangs in the test and goes on after it."""
    found = service(stack, "--storage.tsdb.path")
    yield found
    found.send_signal(signal.SIGCONT)


def reload(client: ApiClient, run: Run) -> Run:
    return client.get_run(run.id).result().value


def wait_for_state(client: ApiClient, run: Run, state: str, seconds: float = 30.0) -> None:
    wait_for(lambda: reload(client, run).state == state, seconds, f"run {run.id} is {state}")


@pytest.mark.timeout(240)
def test_runs_end_while_prometheus_hangs_and_are_counted_once_it_goes_on(
    client: ApiClient, prometheus: psutil.Process
) -> None:
    def steps(name: str, count: int) -> Run:
        wanted = {"steps": str(count), "rate": "100"}
        order = client.create_run(name, 1, benchmark="steps", queue=True, args=wanted)
        return order.result().value

    stopped = steps("to-be-stopped", 100_000)
    wait_for_state(client, stopped, "STARTED")
    wait_for(
        lambda: client.get_run_metrics(stopped.id, last_n=1).result().value,
        what="it has recorded something",
    )
    failing = client.create_run(
        "to-fail",
        1,
        custom_image_name="none/needed",
        custom_image_command=f"{sys.executable} -c 'raise SystemExit(3)'",
        queue=True,
    )
    failed, last = failing.result().value, steps("to-finish", 20)

    prometheus.send_signal(signal.SIGSTOP)
    client.stop_run(stopped.id).result()
    wait_for_state(client, stopped, "STOPPED")
    assert reload(client, stopped).delivery is None
    assert "not yet counted" in (reload(client, stopped).waiting or "")
    wait_for_state(client, failed, "FAILED", 60.0)
    assert reload(client, failed).reason.startswith("rank 0 on")
    wait_for_state(client, last, "STARTED")

    prometheus.send_signal(signal.SIGCONT)
    wait_for_state(client, last, "FINISHED", 60.0)
    for run in (stopped, failed, last):
        _check_counted(client, run)
        client.delete_run(run.id).result()


def _check_counted(client: ApiClient, run: Run) -> None:
    wait_for(lambda: reload(client, run).delivery, 30.0, f"run {run.id} is counted")
    now = reload(client, run)
    assert now.delivery is not None
    assert now.delivery.recorded == now.delivery.in_prometheus + now.delivery.kept
    assert now.delivery.recorded > 0 or run.name == "to-fail"
    assert not now.waiting
