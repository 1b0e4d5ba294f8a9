"""``mlbench up``, ``down`` and ``demo`` start a stack once and leave nothing behind."""

import fcntl
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mlbench import ApiClient
from mlbench.cli.stack import _grafana_line as grafana_line
from mlbench.contract import names
from mlbench.local import launch
from mlbench.local.home import Home, StackConnection
from tests.conftest import free_port, wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.grafana_server import serve_grafana
from tests.support.known import known
from tests.support.processes import descendants, select_running


def test_a_running_stack_is_shown_and_not_restarted(mlbench: Mlbench) -> None:
    before, connection = launch.running_supervisor(mlbench.home), mlbench.home.read_connection()
    again = mlbench("up").output
    assert again.startswith("The stack is already running.\n")
    assert f"  Web pages   {connection.url}/  (`mlbench open` signs in)\n" in again
    [port] = re.findall(r"@127.0.0.1:(\d+)/", known(connection.prometheus_url))
    assert f"  Prometheus  http://127.0.0.1:{port}\n" in again
    assert ("  Grafana: none found; " in again) is (connection.grafana_url is None)
    urls: dict[str, str | None] = {"url": connection.url, "web_url": f"{connection.url}/"}
    urls |= {"prometheus_url": f"http://127.0.0.1:{port}", "grafana_url": connection.grafana_url}
    assert mlbench("up", "--detach", "--json").json == {"state": "already running", **urls}
    assert launch.running_supervisor(mlbench.home) == before
    other = mlbench("up", "--workers", "4").refusal
    assert "a stack is already running with --workers 2 (got 4). Run `mlbench d" in other


def test_installing_grafana_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_HOME, str(tmp_path))
    connection = StackConnection("http://127.0.0.1:1", "t", None)
    with Home(tmp_path).grafana_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert grafana_line(connection).startswith("  Grafana: being installed; ")
    assert grafana_line(connection).startswith("  Grafana: none found; `mlbench grafana in")


def test_the_state_of_the_stacks_grafana_is_shown() -> None:
    with serve_grafana() as server:
        connection = StackConnection("http://127.0.0.1:1", "t", None, grafana_url=server.url)
        shown = f"  Grafana     {server.url}"
        assert grafana_line(connection) == shown
        server.version = "9.5.21"
        too_old = "MLBench needs Grafana 10 or newer; this is Grafana 9.5.21"
        assert grafana_line(connection) == f"{shown} ({too_old})"
    log_file = Home.from_environ().logs / "grafana.log"
    assert grafana_line(connection) == f"{shown} (still starting, or see {log_file})"
    existing = replace(connection, existing_grafana=True)
    assert grafana_line(existing) == f"{shown} (does not respond)"


@pytest.mark.slow
def test_a_detached_stack_runs_until_it_is_stopped(alone: Mlbench) -> None:
    port = free_port()
    up = alone.process("up", "--detach", "--workers", "1", "--port", str(port), "--json").json
    assert (up["state"], up["url"]) == ("running", f"http://127.0.0.1:{port}")
    [pod] = alone("status", "--json").json["pods"]
    assert pod["name"] == "local-mlbench-worker-0"
    supervisor = known(launch.running_supervisor(alone.home))
    started = [psutil.Process(supervisor), *descendants(supervisor)]

    assert alone("down").output == "stopped\n"
    wait_for(lambda: select_running(started) == [], what="all processes have ended")
    assert alone("down", "--json").json == {"stopped": False}
    assert alone("down").out == "no stack was running\n"


@pytest.mark.slow
def test_ctrl_c_ends_a_stack_in_the_foreground(alone: Mlbench) -> None:
    with alone.on_terminal("up", "--workers", "1") as terminal:
        terminal.read_until(r"The stack is running\.\r\n  Web pages .*\?token=.*\r\n  API .*\r\n")
        terminal.read_until(r"  Prometheus  http://\S+\r\n  Grafana.*\r\n")
        started = descendants(terminal.process.pid)
        assert len(started) >= 6
        terminal.press_ctrl_c()
        assert terminal.wait() == 0
    assert select_running(started) == []
    assert not alone.home.connection_file.exists()
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_a_demo_runs_and_stops_the_stack_that_it_started(alone: Mlbench) -> None:
    done = alone.process("demo", "steps", "--workers", "1")
    assert done.code == 0, done.err
    assert re.search(r"^run 1 \(steps-[\d-]+\): completed without a target$", done.out, re.M)
    assert done.err.startswith("Starting Prometheus, master, controller, exporter and workers")
    assert re.search(r"^  Web pages   http://127.0.0.1:\d+/  \(`mlbench open`", done.err, re.M)
    assert done.err.endswith("Stopping the stack…\n")
    assert launch.running_supervisor(alone.home) is None
    assert not alone.home.connection_file.exists()


@pytest.mark.slow
def test_a_demo_does_not_stop_a_running_stack(mlbench: Mlbench) -> None:
    before = launch.running_supervisor(mlbench.home)
    done = mlbench("demo", "no-such-benchmark")
    assert done.code == 2
    assert "unknown benchmark" in done.err
    assert "Stopping" not in done.err
    assert launch.running_supervisor(mlbench.home) == before


def as_if_started_by_it(mlbench: Mlbench) -> Mlbench:
    """Return a command line that treats the running stack as one that it started."""
    code = (
        "from mlbench.cli import app, stack\n"
        "stack.launch.running_supervisor = lambda home: None\n"
        "stack.launch.start_detached = lambda home, *_: home.read_connection()\n"
        "stack.launch.stop = lambda home: print('stopped')\n"
        "app()"
    )
    return replace(mlbench, program=(sys.executable, "-c", code))


@pytest.mark.slow
def test_a_demo_on_a_terminal_stays_up_until_ctrl_c(mlbench: Mlbench) -> None:
    with as_if_started_by_it(mlbench).on_terminal("demo", "steps") as terminal:
        terminal.read_until("The stack is still running; Ctrl-C stops it.*\r\n.*Web pages.*\r\n")
        terminal.read_until("API.*\r\n.*Prometheus.*\r\n.*Grafana.*\r\n")
        assert "Stopping" not in terminal.text
        terminal.press_ctrl_c()
        assert terminal.wait() == 0
    assert terminal.text.endswith("Stopping the stack…\r\nstopped\r\n")


@pytest.mark.slow
def test_ctrl_c_while_a_demo_runs_stops_the_stack(mlbench: Mlbench, client: ApiClient) -> None:
    with as_if_started_by_it(mlbench).on_terminal("demo", "steps") as terminal:
        terminal.read_until("on 2 workers: training")
        terminal.press_ctrl_c()
        assert terminal.wait() == 128 + signal.SIGINT
    assert terminal.text.endswith("Stopping the stack…\r\nstopped\r\n")
    assert "continues" not in terminal.text
    assert any(run.active for run in client.get_runs().result().value)


def test_ctrl_c_while_a_demo_starts_leaves_nothing(alone: Mlbench) -> None:
    with alone.on_terminal("demo", "steps") as terminal:
        wait_for(lambda: launch.running_supervisor(alone.home), what="the supervisor runs")
        supervisor = launch.running_supervisor(alone.home)
        terminal.press_ctrl_c()
        assert terminal.wait() == 128 + signal.SIGINT
    assert not psutil.pid_exists(known(supervisor))
    assert "Traceback" not in terminal.text
