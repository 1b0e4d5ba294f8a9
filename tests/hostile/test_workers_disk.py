"""A worker whose disk is full fails its own run, in words, and works again once there is room."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from tests.conftest import wait_for
from tests.hostile.test_files import assert_works, order, recorded
from tests.support.disks import fill, small_disk
from tests.support.known import known
from tests.support.stacks import run_to_end

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


@pytest.fixture
def disk(stack: Home) -> Iterator[Path]:
    """Where worker 0 keeps its files: a disk with room for 2 MiB."""
    with small_disk(stack.workers / "local-mlbench-worker-0", 2 << 20) as folder:
        yield folder


def fill_all(folder: Path) -> Path:
    """Take all the room that there is, also what the agent's next start would make."""
    wait_for(lambda: not list(folder.glob("run-*/assignment.json")), what="the agent is done")
    for old in folder.glob("run-*"):
        shutil.rmtree(old)
    return fill(folder)


def test_a_run_ends_and_can_be_stopped_though_its_disk_is_full(
    client: ApiClient, disk: Path, tmp_path: Path
) -> None:
    ended = run_to_end(client, order(client, tmp_path, _FILL))
    assert ended.state == "FINISHED", ended.reason
    assert recorded(client, ended) == known(ended.delivery).recorded
    assert (disk / "filler").exists()

    # Nothing can be kept of the next one, which says so.
    fill_all(disk)
    refused = run_to_end(client, order(client, tmp_path, "append()"))
    assert refused.state == "FAILED"
    assert "rank 0 on local-mlbench-worker-0: it cannot keep its files: " in refused.reason
    assert "No space left on device" in refused.reason

    # One whose own words have no room fails for a known reason too.
    (disk / "filler").unlink()
    silent = run_to_end(client, order(client, tmp_path, f"{_FILL}\nsys.exit('words')"))
    assert silent.state == "FAILED"
    assert "exited with code 1 while its worker's disk was full" in silent.reason

    # Freed, it works; filled again under a run that goes on, that run can be stopped.
    (disk / "filler").unlink()
    going_on = order(client, tmp_path, f"{_FILL}\ntime.sleep(600)")
    wait_for(lambda: recorded(client, going_on) > 0, what="it goes on")
    wait_for((disk / "filler").exists, what="the disk is full")
    client.stop_run(going_on.id).result()
    assert run_to_end(client, going_on).state == "STOPPED"
    (disk / "filler").unlink()
    assert_works(client, tmp_path)
