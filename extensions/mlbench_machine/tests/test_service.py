"""``mlbench service``: systemd accepts the unit, and the unit starts the stack."""

import os
import shlex
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench.local import launch
from tests.conftest import free_port, wait_for
from tests.mlbench.cli.conftest import Mlbench


@pytest.fixture
def user(alone: Mlbench, tmp_path: Path) -> Mlbench:
    """The command line with a temporary configuration folder for units."""
    return replace(alone, more={"XDG_CONFIG_HOME": str(tmp_path / "config")})


def _unit(tmp_path: Path) -> Path:
    return tmp_path / "config" / "systemd" / "user" / "mlbench.service"


def test_systemd_accepts_the_unit(user: Mlbench, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    odd = replace(
        user, more={**user.more, "MLBENCH_PUBLIC_URL": 'https://a/"b" %20 $c \\d\nUser=evil'}
    )
    printed = odd("service", "install", "--no-start").output
    assert printed == f"{_unit(tmp_path)} written\n"
    assert _unit(tmp_path).stat().st_mode & 0o777 == 0o600, "settings may contain passwords"
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(_unit(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "mlbench.service" not in done.stderr, done.stderr


def test_the_unit_names_an_existing_prometheus_only_for_this_master(
    user: Mlbench, tmp_path: Path
) -> None:
    named = {**user.more, "MLBENCH_PROMETHEUS_URL": "http://u:p@localhost:9090"}
    other = {**named, "MLBENCH_URL": "http://master.example.com"}
    for more, count in ((named, 1), (other, 0)):
        assert replace(user, more=more)("service", "install", "--no-start").code == 0
        assert _unit(tmp_path).read_text().count("localhost:9090") == count


@pytest.mark.slow
def test_the_unit_starts_the_stack_and_stops_it(user: Mlbench, tmp_path: Path) -> None:
    port = free_port()
    words = ("service", "install", "--no-start", "--workers", "1", "--port", str(port))
    assert user(*words).code == 0
    lines = _unit(tmp_path).read_text().splitlines()
    [command] = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")]
    variables = [line.partition("=")[2] for line in lines if line.startswith("Environment=")]
    environ = dict(shlex.split(text)[0].split("=", 1) for text in variables)
    # A unit's environment has little more than the variables of the unit file.
    base = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PROMETHEUS": str(user.prometheus)}
    process = subprocess.Popen(shlex.split(command), env={**base, **environ})
    try:
        wait_for(user.home.connection_file.exists, what="the stack is running")
        assert user.home.read_connection().url == f"http://127.0.0.1:{port}"
        assert "already running" in user("service", "install").refusal
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert launch.running_supervisor(user.home) is None


def test_an_impossible_installation_is_refused(user: Mlbench, tmp_path: Path) -> None:
    assert "No service is installed" in user("service", "uninstall").refusal
    assert "needs --system" in user("service", "install", "--user", "ada").refusal
    assert not _unit(tmp_path).exists()
    (tmp_path / "config").write_text("a file in the way")
    assert "cannot be written" in user("service", "install", "--no-start").refusal
    (tmp_path / "config").unlink()
    no_systemd = replace(user, more={**user.more, "PATH": str(tmp_path)})
    assert "systemctl: program not found" in no_systemd("service", "install").refusal
    assert not _unit(tmp_path).exists()
