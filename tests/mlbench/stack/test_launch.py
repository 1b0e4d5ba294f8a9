"""Starting and stopping real stacks: once, cleanly, and again after the worst."""

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from mlbench import ApiClient
from mlbench.errors import StackError
from mlbench.home import Home
from mlbench.stack import launch
from tests.conftest import running_stack, wait_for
from tests.mlbench.conftest import wait_for_end
from tests.support.postgres import PostgresServer
from tests.support.processes import descendants, left
from tests.support.stacks import order_steps


def supervisor_of(home: Home) -> psutil.Process:
    pid = launch.running_supervisor(home)
    assert pid is not None
    return psutil.Process(pid)


def ranks_recording(client: ApiClient, run_id: int) -> int:
    return len(client.get_run_metrics(run_id, metric_filter="train_loss").result().value)


@pytest.mark.slow
def test_a_killed_stack_leaves_nothing_and_can_be_started_again(
    own_stack: Home, prometheus_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_stack.read_connection()
    with ApiClient.from_home(own_stack) as client:
        run = order_steps(client, "cut-off", steps=6000, rate=100)
        wait_for(lambda: ranks_recording(client, run.id) == 2, what="both ranks record")
    started = descendants(supervisor_of(own_stack).pid)
    assert len(started) >= 9, "with two training processes"
    supervisor_of(own_stack).kill()
    wait_for(lambda: not left(started), what="all processes have ended")
    assert own_stack.connection_file.exists(), "nobody was left to remove it"

    monkeypatch.setenv("PROMETHEUS", str(prometheus_binary))
    after = launch.start_detached(own_stack, workers=2, port=None)
    assert after.token == before.token
    with ApiClient.from_home(own_stack) as client:
        assert wait_for_end(client, run).state == "FAILED"
        again = order_steps(client, "again", steps=50, rate=1000)
        assert wait_for_end(client, again).state == "FINISHED"


def program(folder: Path, code: str) -> Path:
    """Return a shell script that is to be taken for Prometheus."""
    path = folder / "prometheus"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def test_without_prometheus_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    monkeypatch.setenv("PROMETHEUS", str(tmp_path / "nothing-here"))
    with pytest.raises(StackError, match=r"Prometheus is missing: install it") as error:
        launch.start_detached(home, workers=1, port=None)
    assert "Traceback" not in str(error.value)
    assert not home.prometheus.exists()


def test_a_home_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "file")
    home.root.touch()
    with pytest.raises(StackError, match="cannot use"):
        launch.start_detached(home, workers=1, port=None)
    assert launch.stop(home) is False


@pytest.mark.slow
def test_the_database_may_be_postgresql(
    prometheus_binary: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    with (
        postgres.new_database() as name,
        running_stack(prometheus_binary, tmp_path, DATABASE_URL=postgres.url(name)) as home,
        ApiClient.from_home(home) as client,
    ):
        assert client.get_info().result().value.database == "postgresql"
        run = wait_for_end(client, order_steps(client, "elsewhere", steps=20))
        assert (run.state, home.database.exists()) == ("FINISHED", False)
        with postgres.connect(name) as database:
            assert database.execute("SELECT name FROM run").fetchall() == [("elsewhere",)]


def test_a_damaged_database_is_named(
    prometheus_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and nothing else."""
    monkeypatch.setenv("PROMETHEUS", str(prometheus_binary))
    home = Home(tmp_path / "home")
    home.make()
    home.database.write_text("this is no database, and never was one")
    with pytest.raises(StackError) as error:
        launch.start_detached(home, workers=1, port=None)
    assert str(error.value) == (
        f"the stack did not start:\nthe database {home.database} is damaged (file is not a "
        "database): put a backup in its place, or move it away to begin with an empty one"
    )


@pytest.mark.slow
def test_a_start_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    monkeypatch.setenv("PROMETHEUS", str(program(tmp_path, "exec sleep 1000")))
    monkeypatch.setattr("mlbench.stack.launch._START_SECONDS", 1.0)
    with pytest.raises(StackError, match="the stack was not ready in time"):
        launch.start_detached(home, workers=1, port=None)
    wait_for(lambda: launch.running_supervisor(home) is None, what="it has ended")


def test_ctrl_c_while_it_starts_ends_what_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    monkeypatch.setenv("PROMETHEUS", str(program(tmp_path, "exec sleep 1000")))
    started: list[psutil.Process] = []
    over = threading.Event()

    def press() -> None:
        wait_for(lambda: over.is_set() or launch.running_supervisor(home))
        wait_for(lambda: over.is_set() or len(descendants(supervisor_of(home).pid)) >= 5)
        if over.is_set():  # it has not started
            return
        started.extend([supervisor_of(home), *descendants(supervisor_of(home).pid)])
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            launch.start_detached(home, workers=1, port=None)
    finally:
        over.set()
        thread.join()
    assert len(started) >= 6
    assert left(started) == []
