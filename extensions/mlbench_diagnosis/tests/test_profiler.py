"""Profiles of real processes, and what is stated of a rank that was profiled."""

import gzip
import json
import sys
import time
from pathlib import Path

import pytest

from mlbench_diagnosis import profiler
from mlbench_diagnosis.profiler import profile
from mlbench_worker.agent.attempt import Attempt
from tests.conftest import free_port, wait_for
from tests.worker.agent.conftest import Begin

_TORCH = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}", rank=0, world_size=1)
torch.set_num_threads(1)
layer, batch = torch.nn.Linear(512, 512), torch.ones(256, 512)
while True:
    layer(batch).sum().backward()
    print(1, flush=True)
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


def test_pytorch_is_profiled_by_its_own_profiler(begin: Begin) -> None:
    attempt = begin(sys.executable, "-c", _TORCH.format(port=free_port()))
    recorded, content = profile(attempt, attempt.pid, 1)
    assert (recorded.tool, recorded.problem) == ("pytorch", "")
    assert 1 <= recorded.ended_at - recorded.began_at < 60
    events = json.loads(gzip.decompress(content))["traceEvents"]
    [addmm] = [operator for operator in recorded.operators if operator.name == "aten::addmm"]
    durations = [event["dur"] for event in events if event.get("name") == addmm.name]
    assert addmm.calls == len(durations)
    assert addmm.total_seconds == pytest.approx(sum(durations) / 1e6, rel=1e-6)
    assert 0 < addmm.self_seconds <= addmm.total_seconds
    lines = len(attempt.file("stdout").read_bytes())
    wait_for(lambda: len(attempt.file("stdout").read_bytes()) > lines, what="it goes on")


def test_another_python_is_profiled_by_py_spy_and_its_end_states_it(
    begin: Begin, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(_PYTHON)
    attempt = begin("sh", "-c", f"{sys.executable} {script}; :")
    before = time.time()
    recorded, content = profile(attempt, attempt.pid, 1)
    assert (recorded.tool, recorded.problem) == ("py-spy", "")
    assert "speedscope.app/file-format-schema" in json.loads(gzip.decompress(content))["$schema"]
    top = recorded.operators[0]
    assert (top.name, top.calls) == ("hot (train.py)", None)
    assert 0.3 < top.self_seconds < 1.5
    end(attempt)
    stated = json.loads(attempt.file("metrics").read_text().splitlines()[-1])["interference"]
    [[began, ended]] = stated["profiled"]
    assert before <= began
    assert began + 0.9 <= ended <= recorded.ended_at


def test_what_cannot_be_profiled_says_why(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = begin("sh", "-c", "echo; sleep 60; :")
    recorded, content = profile(shell, shell.pid, 1)
    assert (recorded.tool, content) == ("", b"")
    assert recorded.problem == "rank: none of its processes is a Python"
    monkeypatch.setattr(profiler, "find_spy", lambda: None)
    words = "rank: its worker has neither py-spy nor PyTorch's profiler"
    assert profile(shell, shell.pid, 1)[0].problem == words
    end(shell)
    assert '"profiled": []' in shell.file("metrics").read_text()


def test_a_profile_is_bounded(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = begin(sys.executable, "-c", _PYTHON)
    monkeypatch.setattr(profiler, "MAX_BYTES", 10)
    recorded, content = profile(attempt, attempt.pid, 1)
    words = "seconds: its profile has more than 0 MiB compressed: profile fewer seconds"
    assert (recorded.problem, recorded.operators, content) == (words, (), b"")
    monkeypatch.setattr(profiler, "_find_pytorch", lambda folder: Path("/nowhere"))
    monkeypatch.setattr(profiler, "_BYTES_PER_SECOND", 1 << 50)
    recorded, _ = profile(attempt, attempt.pid, 5)
    assert recorded.problem == "seconds: its worker has memory left to profile 0 s by PyTorch"
