"""The supervisor with services that only sleep: starts, restarts, changes of the pool, and ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mlbench.contract import names
from mlbench.local import launch, network
from mlbench.local.home import Home, StackConnection
from mlbench.local.pool import LocalWorker, PoolFiles
from tests.conftest import wait_for
from tests.support.processes import children, select_running

Process = subprocess.Popen[bytes]
Start = Callable[..., Process]


@pytest.fixture
def start(home: Home, output: Path) -> Iterator[Start]:
    """Function that starts a supervisor whose first service is the given command."""
    started: list[Process] = []

    def start(*first: str) -> Process:
        environ = {**os.environ, names.ENV_HOME: str(home.root)}
        command = [sys.executable, "-m", "tests.support.fake_stack", *first]
        with output.open("ab") as file:
            started.append(subprocess.Popen(command, env=environ, stdout=file, stderr=file))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def wait_until_ready(home: Home) -> None:
    wait_for(home.connection_file.exists, what="the stack is ready")


@pytest.fixture
def running(start: Start, home: Home) -> Process:
    """A supervisor whose stack is ready."""
    process = start()
    wait_until_ready(home)
    return process


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The file with the output of all supervisors."""
    return tmp_path / "output"


def pids(supervisor: Process) -> set[int]:
    return {part.pid for part in children(supervisor.pid)}


def error_of(process: Process, output: Path) -> str:
    """Wait for a supervisor that gives up; return its output."""
    assert process.wait(15) == 1
    return output.read_text()


# --- Running services. ---


def test_a_service_runs_only_on_its_cores(running: Process) -> None:
    affinities = [os.sched_getaffinity(pid) for pid in pids(running)]
    assert {min(os.sched_getaffinity(0))} in affinities
    assert os.sched_getaffinity(0) in affinities


def test_a_ready_stack_writes_its_connection(running: Process, home: Home) -> None:
    connection = StackConnection("http://127.0.0.1:1", "token", "http://127.0.0.1:2")
    assert home.read_connection() == connection
    assert launch.running_supervisor(home) == running.pid
    assert len(pids(running)) == 4
    assert PoolFiles(home).read_status() == _WORKERS


_WORKERS = [LocalWorker(f"worker-{number}", alive=True) for number in range(2)]


def test_workers_of_the_previous_stack_are_ignored(start: Start, home: Home) -> None:
    home.make()
    PoolFiles(home).write_status(_WORKERS)
    start()
    wait_until_ready(home)
    assert (home.prometheus / "targets" / "workers.json").exists()


def kill_and_wait(supervisor: Process, victim: psutil.Process) -> psutil.Process:
    """Kill a service, wait for its restart, and return its new process."""
    others = pids(supervisor) - {victim.pid}
    victim.kill()
    wait_for(lambda: len(pids(supervisor) - {victim.pid}) == 4, what="the service is restarted")
    [again] = [part for part in children(supervisor.pid) if part.pid not in others]
    return again


def test_a_dead_service_is_restarted_after_a_pause_if_it_died_recently(running: Process) -> None:
    victim, *others = children(running.pid)
    again = kill_and_wait(running, victim)
    # The new process is a copy of the supervisor until it executes the command.
    wait_for(lambda: again.cmdline() == ["sleep", "1000"], what="the service runs the same command")
    assert select_running(others) == others, "other services must not be restarted"
    # Services must not import modules of the working directory.
    assert {part.cwd() for part in others} == {"/"}
    # Restarts are at least a second apart.
    later = kill_and_wait(running, again)
    assert later.create_time() - again.create_time() > 0.9


@pytest.mark.parametrize(
    ("part", "message", "started"),
    [
        ("false", "third keeps ending, and is left out", True),
        ("/nowhere/grafana", "third cannot be started", False),
    ],
)
def test_a_failing_optional_service_is_left_out(
    start: Start,
    home: Home,
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    message: str,
    started: bool,
) -> None:
    monkeypatch.setenv("OPTIONAL_PART", part)
    process = start()
    wait_until_ready(home)
    wait_for(lambda: message in output.read_text(), what="the failure is logged")
    # Only a service that starts is retried.
    assert (output.read_text().count("started third") > 1) is started
    assert len(pids(process)) == 4, "other services must keep running"


def test_the_pool_grows_and_shrinks_on_request(running: Process, home: Home) -> None:
    before = pids(running)
    pool = PoolFiles(home)
    targets = home.prometheus / "targets" / "workers.json"
    assert len(json.loads(targets.read_text())) == 2
    pool.write_wanted(3)
    wait_for(lambda: len(pool.read_status()) == 3, what="a third worker is running")
    assert pool.read_status()[2] == LocalWorker("worker-2", alive=True)
    assert len(json.loads(targets.read_text())) == 3, "Prometheus must get the new target"
    assert len(pids(running)) == 5
    pool.write_wanted(2)
    wait_for(lambda: len(pool.read_status()) == 2, what="two workers are running")
    assert pids(running) == before


def test_a_worker_that_keeps_crashing_does_not_block_the_start(
    start: Start, home: Home, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_WORKER", "false")
    process = start()
    wait_until_ready(home)
    assert "the stack starts without worker-1, which is tried again" in output.read_text()
    wait_for(lambda: not PoolFiles(home).read_status()[1].alive)
    ended = PoolFiles(home).read_status()[1]
    assert ended.trouble == f"its agent ended with 1: see {home.logs / 'worker-1.log'}"
    assert process.poll() is None


# --- Termination. ---


def end(supervisor: Process, number: signal.Signals = signal.SIGTERM) -> None:
    """Terminate a supervisor and check that all its services end with it."""
    started = children(supervisor.pid)
    supervisor.send_signal(number)
    assert supervisor.wait(10) == 0
    assert select_running(started) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_termination_ends_services(running: Process, home: Home, number: signal.Signals) -> None:
    end(running, number)
    assert not home.connection_file.exists()
    assert launch.running_supervisor(home) is None


def test_a_deaf_service_is_killed(start: Start, home: Home, output: Path, tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    supervisor = start("sh", "-c", f"trap '' TERM; touch {deaf}; while :; do sleep 0.1; done")
    wait_for(deaf.exists)
    wait_until_ready(home)
    end(supervisor)
    assert "first does not end; killing it" in output.read_text()


def test_no_service_outlives_its_supervisor(running: Process, home: Home, start: Start) -> None:
    started = children(running.pid)
    running.kill()
    running.wait()
    wait_for(lambda: not select_running(started), what="all services have ended")
    assert home.connection_file.exists(), "a killed supervisor cannot remove the file"
    assert launch.running_supervisor(home) is None
    # The supervisor runs as soon as it starts, but the connection is written when it is ready.
    successor = start("sleep", "never-ready")
    wait_for(lambda: launch.running_supervisor(home) == successor.pid)
    assert not home.connection_file.exists()


@pytest.mark.slow
@pytest.mark.parametrize("users", [(), ("--user", "--map-root-user")])
def test_the_network_switch_ends_with_the_supervisor(
    users: tuple[str, ...], home: Home, start: Start, tmp_path: Path
) -> None:
    if problem := network.probe().no_bandwidth:
        pytest.skip(problem)
    able = network.LocalNetwork(unshare=("unshare", *users, "--net"))
    file = tmp_path / "switch"
    supervisor = start(*able.switch(file))
    wait_for(file.exists, what="the switch is there")
    [switch] = [child for child in children(supervisor.pid) if child.pid == int(file.read_text())]
    supervisor.kill()
    supervisor.wait()
    wait_for(lambda: not select_running([switch]), what="the process has ended")


def test_a_home_has_one_stack(running: Process, home: Home, start: Start, output: Path) -> None:
    before, connection = pids(running), home.read_connection()
    said = error_of(start(), output)
    assert f"a stack is already running with {home.root}" in said
    assert launch.running_supervisor(home) == running.pid
    assert (pids(running), home.read_connection()) == (before, connection)


# --- Failing starts. ---


def test_a_failing_service_aborts_the_start(start: Start, home: Home, output: Path) -> None:
    lines = "; ".join(f"echo line {n}" for n in range(20))
    began = time.monotonic()
    error = error_of(start("sh", "-c", f"{lines}; echo no such config >&2; exit 1"), output)
    assert time.monotonic() - began < 10
    log_file = home.logs / "first.log"
    assert f"first ended 3 times while the stack started; the end of {log_file}:\n" in error
    assert error.endswith("line 18\nline 19\nno such config\n")
    assert "line 0" not in error
    assert not home.connection_file.exists()


def test_a_configuration_error_is_not_retried(start: Start, output: Path) -> None:
    said = error_of(start("sh", "-c", f"echo no such config >&2; exit {os.EX_CONFIG}"), output)
    assert said.endswith("\nno such config\n")
    assert said.count("started first") == 1


def test_termination_during_the_start(start: Start, home: Home) -> None:
    supervisor = start("sh", "-c", "exec sleep 1000", "never-ready")
    wait_for(lambda: len(pids(supervisor)) == 4)
    end(supervisor)
    assert not home.connection_file.exists()
