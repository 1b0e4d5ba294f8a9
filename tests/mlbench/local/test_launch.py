"""Starting and stopping local stacks, and errors at the start."""

from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.errors import StackError
from mlbench.local import launch
from mlbench.local.home import Home
from tests.conftest import running_stack, wait_for
from tests.support.postgres import PostgresServer
from tests.support.stacks import order_steps, run_to_end


def program(folder: Path, code: str) -> Path:
    """Return a shell script that is used as Prometheus."""
    path = folder / "prometheus"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def test_nothing_is_started_without_prometheus(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", str(tmp_path / "nothing-here"))
    with pytest.raises(StackError, match=r"Prometheus not found. Install it") as error:
        launch.start_detached(home, workers=1)
    assert "Traceback" not in str(error.value)
    assert not home.prometheus.exists()


def test_a_home_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "file")
    home.root.touch()
    with pytest.raises(StackError, match="cannot use"):
        launch.start_detached(home, workers=1)
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
        run = run_to_end(client, order_steps(client, "elsewhere", steps=20))
        assert (run.state, home.database.exists()) == ("FINISHED", False)
        with postgres.connect(name) as database:
            assert database.execute("SELECT name FROM run").fetchall() == [("elsewhere",)]


def test_only_the_damaged_database_is_reported(
    prometheus_binary: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", str(prometheus_binary))
    home.make()
    home.database.write_text("this is no database, and never was one")
    with pytest.raises(StackError) as error:
        launch.start_detached(home, workers=1)
    problem = f"the database {home.database} is damaged (file is not a database)"
    remedy = f"Restore a backup, or move {home.root} away, which starts an empty one"
    assert str(error.value) == f"the stack did not start:\n{problem}. {remedy}"


@pytest.mark.slow
def test_a_start_that_takes_too_long_is_aborted(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", str(program(tmp_path, "exec sleep 1000")))
    monkeypatch.setattr("mlbench.local.launch._START_SECONDS", 1.0)
    with pytest.raises(StackError, match="the stack was not ready in time"):
        launch.start_detached(home, workers=1)
    wait_for(lambda: launch.running_supervisor(home) is None, what="the process has ended")
