"""The stack survives a full disk of its home folder, and writes its files later."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench.local import launch
from mlbench.local.home import Home
from mlbench.local.pool import LocalWorker, PoolFiles
from tests.conftest import wait_for
from tests.support.disks import fill, small_disk
from tests.support.processes import children, run_text


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 2 << 20) as folder:
        yield folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """File with the supervisor's output, on another disk."""
    return tmp_path / "output"


@pytest.fixture
def supervisor(small: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor whose services only sleep, with its home on the small disk."""
    home = Home(small / "home")
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fake_stack"],
            env={**os.environ, names.ENV_HOME: str(home.root)},
            stdout=file,
            stderr=file,
        )
    wait_for(home.connection_file.exists, what="the stack is ready")
    yield process
    process.terminate()
    process.wait(10)


def test_the_stack_survives_a_full_disk_and_catches_up(
    supervisor: subprocess.Popen[bytes], small: Path, output: Path
) -> None:
    home = Home(small / "home")
    pool = PoolFiles(home)
    before = pool.read_status()
    # The controller's last write before the disk is full.
    spec = home.root / "more"
    spec.write_text(json.dumps({"workers": 3}))
    filler = fill(small)
    spec.replace(home.pool_spec)
    wait_for(lambda: len(children(supervisor.pid)) == 5, what="the third worker is started")
    victim = children(supervisor.pid)[0]
    victim.send_signal(signal.SIGKILL)
    wait_for(lambda: victim.pid not in {part.pid for part in children(supervisor.pid)})
    wait_for(lambda: len(children(supervisor.pid)) == 5, what="the killed service is restarted")
    words = "the workers cannot be adjusted, trying again: [Errno 28] No space left on device"
    wait_for(lambda: words in output.read_text(), what="the log message")
    time.sleep(1)  # five more tries
    assert supervisor.poll() is None
    assert output.read_text().count(words) == 1
    assert pool.read_status() == before, "the old status must stay intact"
    assert not list(home.root.rglob("*.new")), "no partial files must be left"

    filler.unlink()
    wait_for(lambda: len(pool.read_status()) == 3, what="the status is written later")
    assert pool.read_status()[2] == LocalWorker("worker-2", alive=True)
    assert len(json.loads((home.prometheus / "targets" / "workers.json").read_text())) == 3
    wait_for(lambda: "no more: the workers cannot be adjusted" in output.read_text())


def test_the_stack_stops_cleanly_on_a_full_disk(
    supervisor: subprocess.Popen[bytes], small: Path
) -> None:
    fill(small)
    parts = children(supervisor.pid)
    supervisor.terminate()
    assert supervisor.wait(10) == 0
    assert not [part for part in parts if part.is_running() and part.status() != "zombie"]
    assert launch.running_supervisor(Home(small / "home")) is None


def test_a_start_on_a_full_disk_fails_with_the_reason(small: Path) -> None:
    fill(small)
    process = run_text(
        [sys.executable, "-m", "mlbench.local.launch", '{"workers": 1, "listen": {}}'],
        env={**os.environ, names.ENV_HOME: str(small / "home")},
    )
    assert process.returncode == 1
    assert "No space left on device" in process.stderr
    assert "Traceback" not in process.stderr


def test_empty_files_after_a_power_cut_are_ignored(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.pool_spec.touch()
    home.pool_status.touch()
    assert PoolFiles(home).read_wanted() is None
    assert PoolFiles(home).read_status() == []
