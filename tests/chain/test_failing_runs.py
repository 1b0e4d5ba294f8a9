"""A run that fails says which rank, how and why, soon; and leaves no process behind."""

import shlex
import sys
import time
from contextlib import closing

import psutil
import pytest

from mlbench import ApiClient, names
from mlbench.home import Home
from mlbench.records import Run
from mlbench_master.reading.promql import PrometheusClient
from tests.chain import raising
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.stacks import (
    assert_counted,
    losses,
    order_command,
    order_steps,
    run_to_end,
    service,
    training,
)


@pytest.fixture
def running(client: ApiClient) -> Run:
    """A run that would go on for a minute."""
    run = order_steps(client, "long", steps=6000, rate=100)
    wait_for(lambda: len(losses(client, run, rank=1)) > 20, what="values of rank 1 arrive")
    return run


def test_a_killed_training_process_fails_the_run(
    client: ApiClient, stack: Home, running: Run
) -> None:
    [victim] = training(stack, rank=1)
    killed_at = time.monotonic()
    victim.kill()
    ended = run_to_end(client, running)
    assert time.monotonic() - killed_at < 10
    assert ended.state == "FAILED"
    assert "rank 1 on local-mlbench-worker-1 was killed by signal 9 (SIGKILL)" in ended.reason
    assert not training(stack, rank=0)
    assert not training(stack, rank=1)
    assert_counted(ended)
    # One value every 10 ms, up to the kill.
    assert len(losses(client, running, rank=1)) > 20


def test_a_failed_run_has_the_figures_of_its_steps_and_blames_no_rank(
    client: ApiClient, stack: Home
) -> None:
    command = shlex.join([sys.executable, raising.__file__])
    run = run_to_end(client, order_command(client, "raising", command, num_workers=2))
    assert (run.state, run.reason.endswith("ValueError: the data are over")) == ("FAILED", True)
    assert [rank.stopped for rank in run.ranks] == ["stopped after rank 1 failed", ""]
    result = client.get_result(run.id).result().value
    assert [rank.rank for rank in result.ranks] == [0, 1]
    for rank in result.ranks:
        name = f"train_seconds @ {rank.rank}"
        trained = client.get_run_metrics(run.id, metric_filter=name).result().value[name][-1]
        assert rank.step_seconds == pytest.approx(trained.number / known(rank.steps), rel=0.05)
        assert known(rank.step_seconds) >= raising.STEP_SECONDS
    rate = 2 * raising.SAMPLES / known(result.step_seconds)
    assert result.samples_per_second == pytest.approx(rate, rel=0.05)

    selector = f'{names.RUN_SAMPLES_PER_SECOND}{{run_id="{run.id}"}}'
    with closing(PrometheusClient(stack.read_connection().prometheus_url or "")) as prometheus:
        wait_for(lambda: prometheus.query(selector), what="its figures are scraped")
        [scraped] = prometheus.query(selector)
    assert float(scraped.values[0]) == result.samples_per_second


def test_a_failed_attempt_is_tried_again(client: ApiClient, stack: Home) -> None:
    agent = service(stack, "local-mlbench-worker-0")
    run = order_steps(client, "restart", max_restarts=1, steps=200, rate=100)
    wait_for(lambda: losses(client, run), what="it runs")
    [victim] = training(stack, rank=0)
    victim.kill()
    ended = run_to_end(client, run)
    assert (ended.state, ended.attempt) == ("FINISHED", 2), ended.reason
    assert_counted(ended)
    assert psutil.pid_exists(agent.pid)


@pytest.mark.slow
def test_a_killed_agent_fails_the_run_and_the_next_one_works(own_stack: Home) -> None:
    with ApiClient.from_home(own_stack) as client:
        run = order_steps(client, "agent", steps=6000, rate=100)
        wait_for(lambda: losses(client, run), what="it runs")
        service(own_stack, "local-mlbench-worker-0").kill()
        wait_for(lambda: not training(own_stack, rank=0), 5, "its training process is gone")
        ended = run_to_end(client, run)
        assert ended.state == "FAILED"
        assert "rank 0 on local-mlbench-worker-0" in ended.reason
        assert_counted(ended)
        again = order_steps(client, "again", steps=50, rate=500)
        assert run_to_end(client, again).state == "FINISHED"
