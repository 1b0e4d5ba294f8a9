"""All values that a task logs are stored, even if services of the stack are killed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import running_stack, wait_for
from tests.support import stacks
from tests.support.known import known

_MLBENCH = Path(sys.executable).with_name("mlbench")


def test_no_sample_of_a_quick_run_is_lost(client: ApiClient) -> None:
    ordered = stacks.order_steps(client, "quick", steps=1000, rate=2000)
    ended = stacks.run_to_end(client, ordered)
    stacks.assert_complete(client, ended, steps=1000)
    # Prometheus has the first value of each series and millisecond.
    series = client.get_run_metrics(ended.id).result().value
    moments = {(name, point.date[:-4]) for name, points in series.items() for point in points}
    assert 0.95 * len(moments) <= known(ended.delivery).in_prometheus <= len(moments)


@pytest.mark.slow
def test_all_values_are_stored_if_each_service_is_killed(client: ApiClient, stack: Home) -> None:
    run = stacks.order_steps(client, "kills", steps=3300, rate=75)
    wait_for(lambda: len(stacks.losses(client, run)) > 50, what="the run has started")
    for word in ("mlbench_master.controller", "gunicorn", "--config.file"):
        stacks.kill_service(stack, word)
        count = _readable(client, run)
        wait_for(lambda: _readable(client, run) > count, what="values arrive again")  # noqa: B023
    assert stacks.reload(client, run).state == "STARTED", "the run ended before the kills"
    stacks.assert_complete(client, stacks.run_to_end(client, run), steps=3300)


def _readable(client: ApiClient, run: Run) -> int:
    """Return the number of readable values, 0 while a service is down."""
    try:
        return len(stacks.losses(client, run))
    except Exception:
        return 0


@pytest.mark.slow
def test_the_command_line_survives_a_killed_api_and_prometheus(
    client: ApiClient, stack: Home
) -> None:
    process = subprocess.Popen(
        [_MLBENCH, "run", "steps", "--set", "steps=900", "--set", "rate=150"],
        env={**os.environ, names.ENV_HOME: str(stack.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def active() -> list[Run]:
        return [run for run in client.get_runs().result().value if run.active]

    wait_for(active, what="the run is submitted")
    [run] = active()
    wait_for(lambda: stacks.losses(client, run), what="the run has started")
    stacks.service(stack, "--config.file").kill()
    stacks.service(stack, "gunicorn").kill()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "completed" in stdout
    assert re.search(r"Missing samples +0 of ", stdout)


@pytest.fixture
def down(tmp_path: Path) -> Path:
    """A path. While a file exists there, Prometheus does not start."""
    return tmp_path / "down"


@pytest.fixture
def small_stack(prometheus_binary: Path, tmp_path: Path, down: Path) -> Iterator[Home]:
    """A local stack with a small limit for lines that are not indexed yet."""
    binary = tmp_path / "prometheus"
    binary.write_text(
        f'#!/bin/sh\nwhile [ -e {down} ]; do sleep 0.1; done\nexec {prometheus_binary} "$@"\n'
    )
    binary.chmod(0o755)
    with running_stack(binary, tmp_path / "stack", MLBENCH_SPOOL_BYTES="20000") as home:
        yield home


@pytest.mark.slow
def test_agents_keep_metrics_files_while_the_controller_is_suspended(small_stack: Home) -> None:
    def refusals() -> int:
        logs = small_stack.root.rglob("*worker*.log")
        text = "bytes of samples wait for the controller"
        return sum(log.read_text().count(text) for log in logs)

    steps = 750
    with ApiClient.from_home(small_stack) as client:
        run = stacks.order_steps(client, "full", steps=steps, rate=125)
        wait_for(lambda: stacks.losses(client, run, rank=1), what="the run has started")
        controller = stacks.service(small_stack, "mlbench_master.controller")
        controller.suspend()
        wait_for(lambda: refusals() > 2, what="the spool is full")
        assert stacks.reload(client, run).active
        controller.resume()
        stacks.assert_complete(client, stacks.run_to_end(client, run), steps)


@pytest.mark.slow
def test_a_run_finishes_without_prometheus(small_stack: Home, down: Path) -> None:
    down.touch()
    stacks.service(small_stack, "--config.file").kill()
    steps = 500
    with ApiClient.from_home(small_stack) as client:
        run = stacks.order_steps(client, "alone", steps=steps, rate=250)
        wait_for(lambda: not stacks.reload(client, run).active, what="the run has ended")
        ended = stacks.reload(client, run)
        assert (ended.state, ended.reason, ended.delivery) == ("FINISHED", "", None)
        for rank in (0, 1):
            assert len(stacks.losses(client, run, rank)) == steps
        assert client.get_result(run.id).result().value.epochs
        down.unlink()
        stacks.assert_complete(client, stacks.run_to_end(client, run), steps)
