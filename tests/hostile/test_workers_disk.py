"""A worker whose disk is full fails its own run, in words, and works again once there is room."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from tests.conftest import wait_for
from tests.hostile.test_files import assert_works, losses, order
from tests.stacks import run_to_end

pytestmark = pytest.mark.slow

_FILL = """
def fill():
    filler = (folder.parent / "filler").open("ab", buffering=0)
    try:
        while filler.write(b"x" * 4096):
            pass
    except OSError:
        pass

append()
fill()
"""


def fill(folder: Path) -> None:
    """Take all the room that there is, also what the agent's next start would make."""
    wait_for(lambda: not list(folder.glob("run-*/assignment.json")), what="the agent is done")
    for old in folder.glob("run-*"):
        shutil.rmtree(old)
    with (folder / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass


@pytest.fixture
def small_disk(stack: Home) -> Iterator[Path]:
    """Where worker 0 keeps its files: a disk with room for 2 MiB."""
    folder = stack.workers / "local-mlbench-worker-0"
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting takes root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_run_ends_and_can_be_stopped_though_its_disk_is_full(
    stack: Home, small_disk: Path, tmp_path: Path
) -> None:
    with ApiClient.from_home(stack) as client:
        ended = run_to_end(client, order(client, tmp_path, _FILL))
        assert ended.state == "FINISHED", ended.reason
        assert losses(client, ended) == ended.delivery.recorded  # type: ignore[union-attr]
        assert (small_disk / "filler").exists()

        # Nothing can be kept of the next one, which says so.
        fill(small_disk)
        refused = run_to_end(client, order(client, tmp_path, "append()"))
        assert refused.state == "FAILED"
        assert "rank 0 on local-mlbench-worker-0: it cannot keep its files: " in refused.reason
        assert "No space left on device" in refused.reason

        # One whose own words have no room fails for a known reason too.
        (small_disk / "filler").unlink()
        silent = run_to_end(client, order(client, tmp_path, f"{_FILL}\nsys.exit('words')"))
        assert silent.state == "FAILED"
        assert "exited with code 1 while its worker's disk was full" in silent.reason

        # Freed, it works; filled again under a run that goes on, that run can be stopped.
        (small_disk / "filler").unlink()
        going_on = order(client, tmp_path, f"{_FILL}\ntime.sleep(600)")
        wait_for(lambda: losses(client, going_on) > 0, what="it goes on")
        wait_for((small_disk / "filler").exists, what="the disk is full")
        client.stop_run(going_on.id).result()
        assert run_to_end(client, going_on).state == "STOPPED"
        (small_disk / "filler").unlink()
        assert_works(client, tmp_path)
