"""Steps, communication and stragglers of unchanged training code, in real processes."""

from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench.contract.names import Phase  # noqa: TC001
from tests.support.known import known
from tests.support.watched import DDP_TRAINING, run_watched

# Longer than the delays of a busy machine.
_LATE_MS, _STEPS = 60, 40

_BEGIN = """
import os, time, torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from mlbench import Tracker

distributed.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with Tracker() as t:
"""
_END = """
distributed.destroy_process_group()
os._exit(0)  # as in ddp_training.py
"""
_TRACKED = f"""{_BEGIN}
    t.epoch(0)
    for step in range(20):
        with t.phase("data"):
            time.sleep(0.05 * distributed.get_rank())
        with t.phase("forward"):
            loss = model(torch.randn(4, 8)).square().mean()
        with t.phase("backward"):
            loss.backward()
        with t.phase("communication"):
            distributed.barrier()
        optimizer.step()
        t.step(samples=4, train_loss=loss)
    with t.phase("evaluation"):
        distributed.barrier()
{_END}"""
_LOGGED = f"""{_BEGIN}
    for step in range(50):
        time.sleep(0.02 + 0.05 * distributed.get_rank())
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        t.log(loss=loss)
{_END}"""


@pytest.mark.parametrize(
    ("where", "part", "ranks"), [("data", "data", 2), ("backward", "compute", 3)]
)
def test_a_straggler_is_named_in_code_without_mlbench(
    tmp_path: Path, where: str, part: str, ranks: int
) -> None:
    job = run_watched(tmp_path, ranks, *DDP_TRAINING, where, "1", str(_LATE_MS), str(_STEPS))
    found = known(job.stragglers)
    assert found.named == 1
    # Recording starts after the first step.
    assert found.ranks[0].seconds > 0.8 * (_STEPS - 1) * _LATE_MS / 1000
    assert max(found.ranks[0].parts.items(), key=lambda item: item[1])[0] == part
    for rank in range(ranks):
        assert job.last(names.STEP, rank) == _STEPS
        # The clock begins with the end of the first step.
        begun = [job.columns[metric][str(rank)] for metric in (names.STEP, names.TRAIN_SECONDS)]
        assert [column.values[0] for column in begun] == [1, 0]
        assert begun[0].times_us[0] == begun[1].times_us[0]
        assert len(job.columns[names.SAMPLED_STEP][str(rank)].values) == _STEPS - 1


def test_collectives_without_distributed_data_parallel_are_timed(tmp_path: Path) -> None:
    job = run_watched(tmp_path, 2, *DDP_TRAINING, "reduce", "0", str(_LATE_MS), str(_STEPS))
    assert known(job.stragglers).named == 0
    waited = [job.last(names.phase_metric("communication"), rank) for rank in (0, 1)]
    assert waited[1] - waited[0] > 0.8 * (_STEPS - 1) * _LATE_MS / 1000


def test_timing_does_not_change_the_parameters(tmp_path: Path) -> None:
    command = (*DDP_TRAINING, "forward", "0", "0", "12")
    job = run_watched(tmp_path / "timed", 3, *command)
    plain = run_watched(tmp_path / "plain", 3, *command, MLBENCH_TIME_COMMUNICATION="0")
    assert job.columns
    assert not plain.columns
    digests = {text.split()[0] for text in (*job.printed, *plain.printed)}
    assert len(digests) == 1


def test_steps_and_seconds_are_counted_once_with_a_tracker(tmp_path: Path) -> None:
    job = run_watched(tmp_path, 2, "-c", _TRACKED)
    assert known(job.stragglers).named == 1
    for rank in (0, 1):
        assert job.columns[names.STEP][str(rank)].values[-1] == 20
        phases: tuple[Phase, ...] = ("data", "forward", "backward", "communication")
        seconds = [job.last(names.phase_metric(phase), rank) for phase in phases]
        assert all(time > 0 for time in seconds)
        assert sum(seconds) <= job.last(names.TRAIN_SECONDS, rank)
    # Rank 0 waits in the backward pass, and not in the barrier after it.
    assert job.last(names.phase_metric("communication")) > 0.8 * 19 * 0.05


def test_steps_are_counted_with_a_tracker_that_only_logs_values(tmp_path: Path) -> None:
    job = run_watched(tmp_path, 2, "-c", _LOGGED)
    assert known(job.stragglers).named == 1
    for rank in (0, 1):
        assert job.columns[names.STEP][str(rank)].values[-1] == 50
        assert len(job.columns["loss"][str(rank)].values) == 50
    assert job.last(names.phase_metric("communication")) > 0.8 * 49 * 0.05


def test_phases_of_a_tracker_that_counts_no_steps_are_not_subtracted(tmp_path: Path) -> None:
    code = _TRACKED.replace("t.step(samples=4, train_loss=loss)", "t.log(train_loss=loss)")
    (folder := tmp_path / "diagnosis").mkdir()
    code = code.replace("range(20)", "range(40)")
    # All trackers of a process share the mark of the current phase in this folder.
    job = run_watched(tmp_path, 2, "-c", code, **{names.ENV_DIAGNOSIS: str(folder)})
    assert job.last(names.phase_metric("communication")) > 0.8 * 39 * 0.05
    for metric, ranks in job.columns.items():
        if metric.endswith("_seconds"):
            assert all(min(column.values) >= 0 for column in ranks.values()), metric


def test_a_restarted_process_records_no_step_numbers(tmp_path: Path) -> None:
    job = run_watched(tmp_path, 2, *DDP_TRAINING, "data", "0", "0", "12", MLBENCH_ATTEMPT="2")
    assert "0" not in job.columns.get(names.STEP, {})
    assert job.last(names.TRAIN_SECONDS) > 0


def test_official_tasks_time_themselves(tmp_path: Path) -> None:
    code = """
import os, sys, torch
from mlbench_worker.ranks.distributed import join_world
with join_world():
    print("mlbench_sources.collectives" in sys.modules, flush=True)
    torch.distributed.barrier()  # A rank that ends while the other joins would be lost to it.
    os._exit(0)
"""
    assert run_watched(tmp_path, 2, "-c", code).printed == ["False\n", "False\n"]


_ON_ANOTHER_DEVICE = """
import os, torch
from torch import distributed
distributed.init_process_group("gloo")
parameter = torch.nn.Parameter(torch.zeros(4, device={device!r}))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for _ in range(12):
    parameter.grad = torch.ones(4, device={device!r})
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("device", "field"), [("meta", "untimed_gpu_ranks"), ("cpu", "untimed_other_ranks")]
)
def test_unsupported_devices_are_reported_once(tmp_path: Path, device: str, field: str) -> None:
    job = run_watched(tmp_path, 2, "-c", _ON_ANOTHER_DEVICE.format(device=device) + _END)
    assert job.not_recorded == [{field: 1}]
    assert job.last(names.STEP) == 12
    assert "0" not in job.columns.get(names.phase_metric("communication"), {})
