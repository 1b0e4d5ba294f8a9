"""A run that fails says which rank, how and why, soon; and leaves no process behind."""

import time

import psutil
import pytest

from mlbench import ApiClient
from mlbench.client import Run
from mlbench.home import Home
from tests.chain.processes import service, training
from tests.chain.test_nothing_is_lost import run_to_end
from tests.conftest import wait_for
from tests.ordering import order_steps


def losses(client: ApiClient, run: Run, rank: int) -> int:
    """Return how many losses of a rank can be read."""
    series = client.get_run_metrics(run.id).result().value
    return len(series.get(f"train_loss @ {rank}", []))


@pytest.fixture
def running(stack: Home) -> Run:
    """A run that would go on for a minute."""
    with ApiClient.from_home(stack) as client:
        run = order_steps(client, "long", steps=6000, rate=100)
        wait_for(lambda: losses(client, run, rank=1) > 20, what="values of rank 1 arrive")
    return run


def test_a_killed_training_process_fails_the_run(stack: Home, running: Run) -> None:
    [victim] = training(stack, rank=1)
    with ApiClient.from_home(stack) as client:
        killed_at = time.monotonic()
        victim.kill()
        ended = run_to_end(client, running)
        assert time.monotonic() - killed_at < 10
        assert ended.state == "FAILED"
        assert "rank 1 on local-mlbench-worker-1 was killed by signal 9 (SIGKILL)" in ended.reason
        assert not training(stack, rank=0)
        assert not training(stack, rank=1)
        assert ended.delivery is not None
        assert ended.delivery.recorded == ended.delivery.in_prometheus + ended.delivery.kept
        # One value every 10 ms, up to the kill.
        assert losses(client, running, rank=1) > 20


def test_a_failing_command_says_what_it_said(stack: Home) -> None:
    with ApiClient.from_home(stack) as client:
        ordered = order_steps(client, "wrong", nonsense=1)
        ended = run_to_end(client, ordered)
    assert ended.state == "FAILED"
    assert "exited with code 2" in ended.reason
    assert "nonsense" in ended.reason


def test_stop_ends_every_process(stack: Home, running: Run) -> None:
    with ApiClient.from_home(stack) as client:
        client.stop_run(running.id).result()
        ended = run_to_end(client, running)
    assert ended.state == "STOPPED"
    assert not training(stack, rank=0)
    assert not training(stack, rank=1)


def test_a_killed_agent_fails_the_run_and_the_next_one_works(own_stack: Home) -> None:
    with ApiClient.from_home(own_stack) as client:
        run = order_steps(client, "agent", steps=6000, rate=100)
        wait_for(lambda: losses(client, run, rank=0), what="it runs")
        service(own_stack, "local-mlbench-worker-0").kill()
        wait_for(lambda: not training(own_stack, rank=0), 5, "its training process is gone")
        ended = run_to_end(client, run)
        assert ended.state == "FAILED"
        assert "rank 0 on local-mlbench-worker-0" in ended.reason
        assert ended.delivery is not None
        assert ended.delivery.recorded == ended.delivery.in_prometheus + ended.delivery.kept

        again = order_steps(client, "again", steps=50, rate=500)
        assert run_to_end(client, again).state == "FINISHED"


def test_a_failed_attempt_is_tried_again(own_stack: Home) -> None:
    with ApiClient.from_home(own_stack) as client:
        run = order_steps(client, "restart", max_restarts=1, steps=400, rate=100)
        wait_for(lambda: losses(client, run, rank=0), what="it runs")
        [victim] = training(own_stack, rank=0)
        victim.kill()
        ended = run_to_end(client, run)
        assert ended.state == "FINISHED", ended.reason
        assert ended.attempt == 2
        assert ended.delivery is not None
        assert ended.delivery.recorded == ended.delivery.in_prometheus + ended.delivery.kept
        assert psutil.pid_exists(service(own_stack, "local-mlbench-worker-0").pid)
