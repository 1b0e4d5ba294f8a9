"""torchrun on two workers with two processes each."""

import json
import sys
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support import stacks
from tests.support.pages import order_as_printed, values

_TORCHRUN = f"{Path(sys.executable).with_name('torchrun')} --nproc-per-node 2 "
_FAILING = """
import os, time
import torch.distributed as distributed
from mlbench import Tracker

distributed.init_process_group("gloo")
rank = distributed.get_rank()
with Tracker() as t:
    t.step(samples=1, train_loss=float(os.environ["TORCHELASTIC_RESTART_COUNT"]))
    distributed.barrier()
    if rank == 1:
        raise RuntimeError(f"rank {rank} diverged")
    time.sleep(60)
"""


def _whole(text: str) -> list[str]:
    """Return the complete, nonempty lines. The file may end with a partial line."""
    return [line for line in text.splitlines(keepends=True) if line.strip() and line[-1] == "\n"]


@pytest.mark.slow
def test_workers_and_processes_are_one_job(client: ApiClient, stack: Home, tmp_path: Path) -> None:
    run = order_as_printed(client, stack, "torchrun", tmp_path)
    wait_for(lambda: stacks.losses(client, run, rank=3), what="rank 3 records")
    stacks.kill_service(stack, "gunicorn")
    texts = [file.read_text() for file in stacks.files_of(stack) if file.name == "metrics.jsonl"]
    ended = stacks.run_to_end(client, run)
    assert ended.state == "FINISHED", ended.reason
    stacks.assert_counted(ended)
    assert ended.world_size == 4
    assert [rank.processes for rank in ended.ranks] == [(0, 1), (2, 3)]
    series = client.get_run_metrics(run.id).result().value
    for rank in range(4):
        assert [point.number for point in series[f"step @ {rank}"]][-1] == 100
        assert len(series[f"train_loss @ {rank}"]) == 100
    early = [line for text in texts for line in map(json.loads, _whole(text))]
    curves = [values(client, run, "train_loss", rank) for rank in range(4)]
    recorded = [line for line in early if "rank" in line and "train_loss" in line["metrics"]]
    assert recorded
    for line in recorded:
        moment = (int(line["time"] * 1000), line["metrics"]["train_loss"])
        assert moment in [(at // 1000, value) for at, value in curves[line["rank"]]]
    result = client.get_result(run.id).result().value
    assert (result.num_workers, result.world_size, result.epochs) == (2, 4, 20)
    assert result.samples == 4 * 100 * 32
    assert {"forward", "backward", "optimizer"} <= result.phases.keys()
    assert result.time_to_target is not None


@pytest.mark.slow
def test_a_failure_has_rank_and_line_and_restarts_are_events(
    client: ApiClient, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(_FAILING)
    command = _TORCHRUN + "--max-restarts 1 train.py"
    ended = stacks.run_to_end(
        client, stacks.order_command(client, "diverges", command, working_dir=str(tmp_path)), 120
    )
    line = 1 + _FAILING.splitlines().index('        raise RuntimeError(f"rank {rank} diverged")')
    assert ended.state == "FAILED"
    assert ended.reason == (
        f"local-mlbench-worker-0: rank 1: RuntimeError: rank 1 diverged (train.py:{line})"
    )
    events = client.get_run_events(ended.id).result().value
    assert [event.text for event in events if event.kind == "restarted"] == [
        "torchrun on local-mlbench-worker-0 restarted its processes (restart 1)"
    ]
    assert stacks.losses(client, ended, 0) == stacks.losses(client, ended, 1) == [0, 1]
