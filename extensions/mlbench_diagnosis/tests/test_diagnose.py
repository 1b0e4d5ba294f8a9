"""``mlbench diagnose`` and ``mlbench stacks`` on hung ranks."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlbench import ApiClient
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import order_command


def test_a_hung_run_is_diagnosed(mlbench: Mlbench, client: ApiClient) -> None:
    ordered = order_command(client, "hangs", "sleep 1000", num_workers=2)
    try:
        while client.get_run(ordered.id).result().value.started_at is None:
            pass
        text = mlbench("diagnose", "hangs").out
        assert text.startswith("cannot tell: ranks 0 and 1 ")
        assert text.splitlines()[0] in mlbench("status", "hangs").out
        [asked] = [
            e for e in client.get_run_events(ordered.id).result().value if e.kind == "diagnosis"
        ]
        assert asked.text.endswith(text.splitlines()[0])
        assert "no stack from any rank" in mlbench("stacks", "hangs").err
        assert "Choose it with --rank" in mlbench("stacks", "hangs", "--native").err
        no_python = mlbench("stacks", "hangs", "--native", "--rank", "1").err
        assert "no Python process with a known stack" in no_python
    finally:
        mlbench("stop", "hangs")
    # A second command shows the stored diagnosis.
    assert (
        mlbench("diagnose", "hangs", "--json").json["verdict"]["sentence"] == text.splitlines()[0]
    )


_WITHOUT_TORCH = """
import os, time
import mlbench

def load_images():
    time.sleep(1000)

def barrier():
    time.sleep(1000)

t = mlbench.Tracker()
for _ in range(3):
    with t.phase("communication"):
        time.sleep(0.01)
    t.step(samples=1)
print("hangs", flush=True)
if os.environ["RANK"] == "1":
    with t.phase("data"):
        load_images()
with t.phase("communication"):
    barrier()
"""


_STUCK_LOADER = """
import os, time
import torch, torch.distributed as dist
import mlbench
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self):
        return 10
    def __getitem__(self, i):
        if i == 5 and os.environ["RANK"] == "1":
            stuck_decode()
        return torch.zeros(1)

def stuck_decode():
    time.sleep(1000)

dist.init_process_group("gloo")
t = mlbench.Tracker()
for step, images in enumerate(DataLoader(Images(), num_workers=1, prefetch_factor=1)):
    dist.all_reduce(images)
    t.step(samples=1)
    if step == 4:
        print("hangs", flush=True)
"""


@contextmanager
def hanging(mlbench: Mlbench, client: ApiClient, script: Path, text: str) -> Iterator[str]:
    """Run a command on two ranks until both have reported that they hang; yield the run's id."""
    script.write_text(text)
    command = shlex.join([sys.executable, str(script)])
    ordered = order_command(client, script.stem, command, num_workers=2)
    run = str(ordered.id)
    try:
        wait_for(
            lambda: all("hangs" in mlbench("logs", run, "--rank", rank).out for rank in "01"),
            what="both ranks hang",
        )
        time.sleep(3)  # A rank that has just finished a step counts as progressing.
        yield run
    finally:
        client.stop_run(ordered.id).result()


def test_phases_identify_the_late_rank_without_a_framework(
    mlbench: Mlbench, client: ApiClient, tmp_path: Path
) -> None:
    with hanging(mlbench, client, tmp_path / "own.py", _WITHOUT_TORCH) as run:
        verdict = mlbench("diagnose", run, "--json").json["verdict"]
    assert verdict["sentence"] == (
        "rank 1 is at `load_images` (own.py:6); rank 0 waits in the phase communication"
    )
    assert (verdict["kind"], verdict["at_fault"]) == ("not_in_collective", [1])


@pytest.mark.slow
def test_the_line_of_a_stuck_data_loader_worker_is_reported(
    mlbench: Mlbench, client: ApiClient, tmp_path: Path
) -> None:
    with hanging(mlbench, client, tmp_path / "loads.py", _STUCK_LOADER) as run:
        verdict = mlbench("diagnose", run, "--json").json["verdict"]
    assert "(its data loader's worker is at `stuck_decode` (loads.py:16))" in verdict["sentence"]
    assert verdict["at_fault"] == [1]
