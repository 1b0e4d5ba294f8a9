"""A spool that is full: agents keep what they have, and lose none of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from mlbench.stack import launch
from tests.chain.processes import service
from tests.chain.test_nothing_is_lost import assert_complete, run_to_end
from tests.conftest import wait_for
from tests.ordering import order_steps

SPOOL_BYTES = 20_000


@pytest.fixture
def down(tmp_path: Path) -> Path:
    """A file: as long as it exists, Prometheus does not start."""
    return tmp_path / "down"


@pytest.fixture
def small_stack(prometheus_binary: Path, tmp_path: Path, down: Path) -> Iterator[Home]:
    """A local stack with a small spool."""
    binary = tmp_path / "prometheus"
    binary.write_text(
        f'#!/bin/sh\nwhile [ -e {down} ]; do sleep 0.1; done\nexec {prometheus_binary} "$@"\n'
    )
    binary.chmod(0o755)
    home = Home(tmp_path / "stack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROMETHEUS", str(binary))
        patch.setenv("MLBENCH_SPOOL_BYTES", str(SPOOL_BYTES))
        launch.start_detached(home, workers=2, port=None)
    yield home
    launch.stop(home)


def refusals(home: Home) -> int:
    """Return how often agents were told to come again later."""
    logs = home.root.rglob("*worker*.log")
    return sum(log.read_text().count("bytes of samples wait for Prometheus") for log in logs)


@pytest.mark.timeout(180)
def test_agents_keep_their_files_while_the_spool_is_full(small_stack: Home, down: Path) -> None:
    steps = 750
    with ApiClient.from_home(small_stack) as client:
        run = order_steps(client, "full", steps=steps, rate=125)
        wait_for(
            lambda: client.get_run_metrics(run.id).result().value.get("train_loss @ 1"),
            what="it has begun",
        )
        down.touch()
        service(small_stack, "--config.file").kill()
        wait_for(lambda: refusals(small_stack) > 2, what="the spool is full")
        assert client.get_run(run.id).result().value.active
        down.unlink()
        assert_complete(client, run_to_end(client, run), steps)
