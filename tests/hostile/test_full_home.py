"""A full disk under the home folder does not end the stack; what could not be written is later."""

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
    """A disk of 2 MiB."""
    with small_disk(tmp_path / "small", 2 << 20) as folder:
        yield folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """What the supervisor says, on another disk."""
    return tmp_path / "output"


@pytest.fixture
def supervisor(small: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real supervisor of parts that only sleep, with its home on the small disk."""
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


def test_the_stack_outlives_a_full_disk_and_makes_up_for_it(
    supervisor: subprocess.Popen[bytes], small: Path, output: Path
) -> None:
    home = Home(small / "home")
    pool = PoolFiles(home)
    before = pool.read_status()
    # As the controller would have written it just in time.
    spec = home.root / "more"
    spec.write_text(json.dumps({"workers": 3}))
    filler = fill(small)
    spec.replace(home.pool_spec)
    wait_for(lambda: len(children(supervisor.pid)) == 5, what="the third worker is started")
    victim = children(supervisor.pid)[0]
    victim.send_signal(signal.SIGKILL)
    wait_for(lambda: victim.pid not in {part.pid for part in children(supervisor.pid)})
    wait_for(lambda: len(children(supervisor.pid)) == 5, what="what died is started again")
    words = "the workers cannot be adjusted, trying again: [Errno 28] No space left on device"
    wait_for(lambda: words in output.read_text(), what="it says so")
    time.sleep(1)  # five more tries
    assert supervisor.poll() is None
    assert output.read_text().count(words) == 1
    assert pool.read_status() == before, "whole, though old"
    assert not list(home.root.rglob("*.new")), "no halves are left"

    filler.unlink()
    wait_for(lambda: len(pool.read_status()) == 3, what="the status is written later")
    assert pool.read_status()[2] == LocalWorker("worker-2", alive=True)
    assert len(json.loads((home.prometheus / "targets" / "workers.json").read_text())) == 3
    wait_for(lambda: "no more: the workers cannot be adjusted" in output.read_text())


def test_it_ends_in_order_on_a_full_disk(supervisor: subprocess.Popen[bytes], small: Path) -> None:
    fill(small)
    parts = children(supervisor.pid)
    supervisor.terminate()
    assert supervisor.wait(10) == 0
    assert not [part for part in parts if part.is_running() and part.status() != "zombie"]
    assert launch.running_supervisor(Home(small / "home")) is None


def test_a_start_on_a_full_disk_says_so(small: Path) -> None:
    fill(small)
    done = run_text(
        [sys.executable, "-m", "mlbench.local.launch", '{"workers": 1, "listen": {}}'],
        env={**os.environ, names.ENV_HOME: str(small / "home")},
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_files_that_a_power_cut_left_empty_stop_no_start(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.pool_spec.touch()
    home.pool_status.touch()
    assert PoolFiles(home).read_wanted() is None
    assert PoolFiles(home).read_status() == []
