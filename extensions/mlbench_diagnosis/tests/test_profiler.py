"""Profiles of real processes, and the facts reported about a profiled rank."""

import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlbench_diagnosis import profiler
from mlbench_diagnosis.profiler import profile
from mlbench_worker.agent.attempt import Attempt
from tests.conftest import free_port, wait_for
from tests.worker.agent.conftest import Begin

_TRAINING = """
import sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, index):
        time.sleep({decode_seconds})
        return torch.full((256,), 1.0)

def train():
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}", rank=0, world_size=1)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(*(torch.nn.Linear({width}, {width}) for _ in range(3)))
    model, first = DistributedDataParallel(net), torch.nn.Linear(256, {width})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Images(), batch_size=64, num_workers={workers}):
        optimizer.zero_grad()
        loss = model(first(batch)).sum()
        loss.backward()
        optimizer.step()
        print(1, flush=True)

if __name__ == "__main__":
    train()
"""
_SLEEP = """
import time
def pause():
    time.sleep(0.03)
print(1, flush=True)
while True:
    pause()
    sum(range(100))
"""
_PYTHON = """
import time
def hot():
    until = time.monotonic() + 60
    while time.monotonic() < until:
        sum(range(1000))
print(1, flush=True)
hot()
"""


def end(attempt: Attempt) -> None:
    wait_for(lambda: attempt.measured, what="something was measured")
    attempt.stop()
    assert attempt.ended.wait(20)


@pytest.mark.parametrize(
    ("settings", "culprit", "activity"),
    [
        ({"decode_seconds": 0.002}, "time.sleep(0.002)", "Python"),
        (
            {"decode_seconds": 0.002, "workers": 1},
            "for batch in DataLoader(Images(), batch_size=64, num_workers=1):",
            "__next__ (dataloader.py)",
        ),
        ({"width": 1024}, "loss.backward()", ""),
    ],
)
def test_a_pytorch_profile_has_the_lines_of_the_code(
    begin: Begin, tmp_path: Path, settings: Mapping[str, float], culprit: str, activity: str
) -> None:
    script = tmp_path / "train.py"
    defaults = {"decode_seconds": 0, "width": 16, "workers": 0}
    script.write_text(_TRAINING.format(port=free_port(), **{**defaults, **settings}))
    attempt = begin(sys.executable, str(script))
    recorded, content = profile(attempt, attempt.pid, 2)
    assert (recorded.tool, recorded.problem) == ("pytorch", "")
    first = recorded.lines[0]
    assert first.name.partition(" ")[2] == culprit
    assert activity in ("", first.activity)
    assert sum(line.seconds for line in recorded.lines) == pytest.approx(2, abs=0.2)
    assert first.seconds > 1 or settings == {"width": 1024}

    events = json.loads(gzip.decompress(content))["traceEvents"]
    for operator in recorded.operators:
        durations = [event["dur"] for event in events if event.get("name") == operator.name]
        assert operator.calls == len(durations)
        assert operator.total_seconds == pytest.approx(sum(durations) / 1e6, rel=1e-6)
    stacks = [event for event in events if event.get("cat") == "python_stack"]
    calls = [event for event in events if event.get("cat") == "cpu_op"]
    # Stacks and calls share a timeline: the stacks span the calls.
    assert min(event["ts"] for event in stacks) <= min(call["ts"] for call in calls) + 1e5
    assert max(event["ts"] + event["dur"] for event in stacks) >= calls[-1]["ts"] - 1e5
    lines = len(attempt.file("stdout").read_bytes())
    wait_for(lambda: len(attempt.file("stdout").read_bytes()) > lines, what="it goes on")


def test_the_rank_is_profiled_and_not_its_launcher(begin: Begin, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SLEEP)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    attempt = begin(sys.executable, *launcher, str(script), waits=False)
    recorded, _ = profile(attempt, attempt.pid, 1)
    assert recorded.problem == (
        "rank: its launcher has not started its processes yet. Profile it again once it trains."
    )
    wait_for(lambda: attempt.file("stdout").read_bytes(), what="the ranks run")
    recorded, _ = profile(attempt, attempt.pid, 1)
    assert (recorded.tool, recorded.problem) == ("py-spy", "")
    first = recorded.lines[0]
    assert (first.name, first.activity) == ("train.py:4 time.sleep(0.03)", "Python")
    assert first.seconds > 0.8
    assert sum(line.seconds for line in recorded.lines) == pytest.approx(1)
    # The fixture would end the children first, and torchrun with them.
    attempt.stop()
    assert attempt.ended.wait(20)


def test_a_failed_profile_has_a_reason(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = begin("sh", "-c", "echo; sleep 60; :")
    recorded, content = profile(shell, shell.pid, 1)
    assert (recorded.tool, content) == ("", b"")
    assert recorded.problem == "rank: none of its processes is a Python"
    monkeypatch.setattr(profiler, "find_spy", lambda: None)
    end(shell)
    assert '"profiled": []' in shell.file("metrics").read_text()
    python = begin(sys.executable, "-c", _PYTHON)
    assert profile(python, python.pid, 1)[0].problem == (
        "rank: its worker has no py-spy, and its processes have not joined a process group, which "
        "PyTorch's profiler needs. Profile it again once it trains."
    )


def test_the_size_of_a_profile_is_limited(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = begin(sys.executable, "-c", _PYTHON)
    monkeypatch.setattr(profiler, "MAX_BYTES", 10)
    recorded, content = profile(attempt, attempt.pid, 1)
    words = "seconds: its profile has more than 0 MiB compressed: profile fewer seconds"
    assert (recorded.problem, recorded.operators, content) == (words, (), b"")
    monkeypatch.setattr(profiler, "_find_pytorch", lambda folder: Path("/nowhere"))
    monkeypatch.setattr(profiler, "_BYTES_PER_SECOND", 1 << 50)
    recorded, _ = profile(attempt, attempt.pid, 5)
    assert recorded.problem == "seconds: its worker has memory left to profile 0 s by PyTorch"
