"""A failed run names the rank and the cause within seconds, and leaves no process running."""

import shlex
import sys
import time
from contextlib import closing

import psutil
import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home
from mlbench_master.reading.promql import PrometheusClient
from tests.chain import early_exit, failing_rank
from tests.conftest import wait_for
from tests.support import stacks
from tests.support.known import known


@pytest.fixture
def running(client: ApiClient) -> Run:
    """A run that takes a minute unless it is stopped."""
    run = stacks.order_steps(client, "long", steps=6000, rate=100)
    wait_for(lambda: len(stacks.losses(client, run, rank=1)) > 20, what="values of rank 1 arrive")
    return run


def test_a_killed_training_process_fails_the_run(
    client: ApiClient, stack: Home, running: Run
) -> None:
    [victim] = stacks.training(stack, rank=1)
    killed_at = time.monotonic()
    victim.kill()
    ended = stacks.run_to_end(client, running)
    assert time.monotonic() - killed_at < 10
    assert ended.state == "FAILED"
    assert "rank 1 on local-mlbench-worker-1 was killed by signal 9 (SIGKILL)" in ended.reason
    assert not stacks.training(stack, rank=0)
    assert not stacks.training(stack, rank=1)
    stacks.assert_counted(ended)
    # One value every 10 ms, up to the kill.
    assert len(stacks.losses(client, running, rank=1)) > 20


def test_a_failed_run_has_results_and_the_step_times_of_all_ranks(
    client: ApiClient, stack: Home
) -> None:
    command = shlex.join([sys.executable, failing_rank.__file__])
    run = stacks.run_to_end(
        client, stacks.order_command(client, "failing-rank", command, num_workers=2)
    )
    assert (run.state, run.reason.endswith("ValueError: the data set is exhausted")) == (
        "FAILED",
        True,
    )
    assert [rank.stopped for rank in run.ranks] == ["stopped after rank 1 failed", ""]
    result = client.get_result(run.id).result().value
    assert [rank.rank for rank in result.ranks] == [0, 1]
    # Rank 0 was stopped up to a second after its last totals; rank 1 recorded its own at its end.
    assert [rank.steps for rank in result.ranks] == [failing_rank.STEPS] * 2
    name = "train_seconds @ 1"
    trained = client.get_run_metrics(run.id, metric_filter=name).result().value[name][-1]
    for rank in result.ranks:
        assert rank.step_seconds == pytest.approx(trained.number / failing_rank.STEPS, rel=0.05)
        assert known(rank.step_seconds) >= failing_rank.STEP_SECONDS
    rate = 2 * failing_rank.SAMPLES / known(result.step_seconds)
    assert result.samples_per_second == pytest.approx(rate, rel=0.05)

    selector = f'{names.RUN_SAMPLES_PER_SECOND}{{run_id="{run.id}"}}'
    with closing(PrometheusClient(stack.read_connection().prometheus_url or "")) as prometheus:
        wait_for(lambda: prometheus.query(selector), what="the throughput is scraped")
        [scraped] = prometheus.query(selector)
    assert float(scraped.values[0]) == result.samples_per_second


def test_a_failure_names_the_rank_that_exited_early(client: ApiClient) -> None:
    command = shlex.join([sys.executable, early_exit.__file__])
    run = stacks.run_to_end(
        client, stacks.order_command(client, "early-exit", command, num_workers=2)
    )
    assert run.state == "FAILED"
    first, *_ = run.reason.splitlines()
    assert first == (
        "rank 0 on local-mlbench-worker-0 exited with code 0 first; "
        "then rank 1 on local-mlbench-worker-1 exited with code 1"
    )
    outcome = known(client.get_result(run.id).result().value.outcome)
    assert (outcome.kind, outcome.rank) == ("crashed", 0)


def test_a_failed_attempt_is_restarted(client: ApiClient, stack: Home) -> None:
    agent = stacks.service(stack, "local-mlbench-worker-0")
    run = stacks.order_steps(client, "restart", max_restarts=1, steps=200, rate=100)
    wait_for(lambda: stacks.losses(client, run), what="the run has started")
    [victim] = stacks.training(stack, rank=0)
    victim.kill()
    ended = stacks.run_to_end(client, run)
    assert (ended.state, ended.attempt) == ("FINISHED", 2), ended.reason
    stacks.assert_counted(ended)
    assert psutil.pid_exists(agent.pid)


@pytest.mark.slow
def test_a_killed_agent_fails_the_run_and_the_next_one_works(own_stack: Home) -> None:
    with ApiClient.from_home(own_stack) as client:
        run = stacks.order_steps(client, "agent", steps=6000, rate=100)
        wait_for(lambda: stacks.losses(client, run), what="the run has started")
        stacks.service(own_stack, "local-mlbench-worker-0").kill()
        wait_for(
            lambda: not stacks.training(own_stack, rank=0), 5, "the training process has ended"
        )
        ended = stacks.run_to_end(client, run)
        assert ended.state == "FAILED"
        assert "rank 0 on local-mlbench-worker-0" in ended.reason
        stacks.assert_counted(ended)
        again = stacks.order_steps(client, "again", steps=50, rate=500)
        assert stacks.run_to_end(client, again).state == "FINISHED"
