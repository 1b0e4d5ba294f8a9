"""The next agent can restore an attempt from its folder."""

import itertools
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract.assignment import Assignment
from mlbench_sources.mlbench_core import HOOK
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.training_process import Exit
from tests.support.assignments import ASSIGNMENT
from tests.support.known import known


def test_the_first_line_describes_the_machine(attempt: Attempt) -> None:
    before = time.time()
    attempt.append([{"machine": {"hostname": "h\ud800", "packages": {"torch": "2"}}}])
    text = attempt.file("metrics").read_text()
    assert text.endswith("\n")
    [line] = map(json.loads, text.splitlines())
    assert before <= line.pop("time") <= time.time()
    assert line == {"machine": {"hostname": "h?", "packages": {"torch": "2"}}}


def test_an_unfinished_attempt_counts_as_killed(attempt: Attempt) -> None:
    attempt.file("metrics").write_bytes(b"12345")
    found = known(Attempt.resume(attempt.folder.parent))
    assert found.assignment == ASSIGNMENT
    assert known(found.exit).code == -9
    assert found.ended.is_set()
    assert found.sizes() == {"stdout": 0, "stderr": 0, "metrics": 5, "files": 0}


def test_an_exit_is_stored_until_the_attempt_is_forgotten(attempt: Attempt) -> None:
    attempt._note_exit(Exit(3, 1234.5))
    folder = attempt.folder.parent
    assert known(Attempt.resume(folder)).exit == Exit(3, 1234.5)
    attempt.forget()
    assert Attempt.resume(folder) is None
    assert attempt.counters.is_dir()


def test_a_folder_can_be_copied_once_the_process_has_ended(
    attempt: Attempt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Change to the folder, because the path of a socket must be short.
    monkeypatch.chdir(attempt.diagnosis)
    (attempt.diagnosis / "17.json").write_text("{}")
    with socket.socket(socket.AF_UNIX) as torch:
        torch.bind("17.sock")
    attempt._note_exit(Exit(3, 1234.5))
    shutil.copytree(attempt.folder, tmp_path / "backup")
    assert [path.name for path in attempt.diagnosis.iterdir()] == ["17.json"]


@pytest.mark.parametrize(
    ("run_id", "attempt", "remaining"),
    [
        (7, 2, ["run-7/epoch-1.pt"]),
        (7, 1, []),  # from a run of another master, with the same number
        (8, 1, []),
        (8, 2, []),
    ],
)
def test_only_later_attempts_find_checkpoints(
    tmp_path: Path, run_id: int, attempt: int, remaining: list[str]
) -> None:
    root = tmp_path / "checkpoints"
    for saved in (6, 7):
        (root / f"run-{saved}").mkdir(parents=True)
        (root / f"run-{saved}" / "epoch-1.pt").touch()
    started = replace(ASSIGNMENT, run_id=run_id, attempt=attempt, keeps_checkpoints=True)
    Attempt.create(tmp_path, started).prepare_checkpoints()
    assert [path.name for path in root.iterdir()] == [f"run-{run_id}"], "code may save at once"
    assert [str(path.relative_to(root)) for path in root.glob("*/*")] == remaining


def test_a_run_without_restarts_has_no_folder_of_checkpoints(tmp_path: Path) -> None:
    started = replace(ASSIGNMENT, keeps_checkpoints=False)
    Attempt.create(tmp_path, started).prepare_checkpoints()
    assert [*(tmp_path / "checkpoints").iterdir()] == []


def run(
    folder: Path,
    *command: str,
    assignment: Assignment = ASSIGNMENT,
    environ: Mapping[str, str] = os.environ,
    offset: float = 0.0,
) -> Attempt:
    """Run an attempt of a command to its end."""
    attempt = Attempt.create(folder, replace(assignment, cpus=(), command=command))
    attempt.start(environ, lambda: None, clock_offset_seconds=offset)
    assert attempt.ended.wait(10)
    return attempt


def environ_of(folder: Path, assignment: Assignment, offset: float = 0.0) -> dict[str, str]:
    """Return the environment of an attempt's process, with the attempt's folder as ".".

    The address of its agent is left out because it is different each time.
    """
    own = {"PATH": "/bin:/usr/bin", "MLFLOW_TRACKING_URI": "own"}
    attempt = run(folder, "printenv", "-0", assignment=assignment, environ=own, offset=offset)
    text = attempt.file("stdout").read_text().replace(str(attempt.folder), ".")
    text = text.replace(str(attempt.output), "output")
    environ = dict(line.split("=", 1) for line in text.split("\0") if line)
    assert "@127.0.0.1:" in environ.pop("MLBENCH_AGENT")
    return environ


def test_the_process_gets_the_variables_of_torch_and_tasks(tmp_path: Path) -> None:
    variables = {
        "PATH": "/bin:/usr/bin",
        "MLFLOW_TRACKING_URI": "own",
        "RANK": "1",
        "LOCAL_RANK": "0",
        "NODE_RANK": "1",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "127.0.0.2",
        "MASTER_PORT": "29500",
        "PET_NNODES": "4",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "127.0.0.2",
        "PET_MASTER_PORT": "29500",
        "PET_RDZV_ENDPOINT": "127.0.0.2:29500",
        "PET_RDZV_ID": "7.2",
        "PET_LOCAL_ADDR": "127.0.0.1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCHELASTIC_ERROR_FILE": "./error.json",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(HOOK),
        "MLBENCH_DIAGNOSIS": "./diagnosis",
        "MLBENCH_RUN_ID": "7",
        "MLBENCH_ATTEMPT": "2",
        "MLBENCH_RANK": "1",
        "MLBENCH_WORLD_SIZE": "4",
        "MLBENCH_METRICS_FILE": "./metrics.jsonl",
        "MLBENCH_OUTPUT": "output",
        "PROMETHEUS_MULTIPROC_DIR": "./counters",
    }
    optional = {
        "MLBENCH_SEED": "42",
        "MLBENCH_CHECKPOINTS": str(tmp_path / "checkpoints/run-7"),
        "MLBENCH_DEADLINE": repr(1_900_000_000.25 - 0.5),
    }
    assert environ_of(tmp_path, ASSIGNMENT, offset=-0.5) == variables | optional
    plain = replace(ASSIGNMENT, seed=None, deadline_at=None, keeps_checkpoints=False)
    assert environ_of(tmp_path, plain) == variables


def test_a_kill_for_memory_is_explained_in_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = itertools.count()
    monkeypatch.setattr("mlbench_worker.agent.attempt.killed_for_memory", lambda: next(kills))
    monkeypatch.setattr("mlbench_worker.agent.attempt.memory_limit", lambda: 200 << 20)
    attempt = run(tmp_path, "sh", "-c", "kill -9 $$")
    assert known(attempt.exit).code == -9
    assert attempt.file("stderr").read_text() == (
        "out of memory: the kernel killed a process at the worker's limit, 200 MiB\n"
    )


# Sends a value like MLflow's client; the arguments are the body, and the next line of code.
_LOG_METRIC = """
import base64, http.client, os, sys, urllib.parse
address = urllib.parse.urlsplit(os.environ["MLFLOW_TRACKING_URI"])
login = base64.b64encode(f"{address.username}:{address.password}".encode()).decode()
client = http.client.HTTPConnection(address.hostname, address.port)
headers = {"Authorization": f"Basic {login}"}
client.request("POST", "/api/2.0/mlflow/runs/log-metric", sys.argv[1], headers)
exec(sys.argv[2])
"""
_LOG = (sys.executable, "-c", _LOG_METRIC)
_LOSS = '{"key": "loss", "value": 0.5, "timestamp": 1500, "step": 3}'


def recorded(attempt: Attempt) -> list[dict[str, Any]]:
    """Return the lines of a process, without the agent's report on CPU contention."""
    lines = attempt.file("metrics").read_text().splitlines()
    return [json.loads(line) for line in lines if line and '"interference"' not in line]


def test_mlflow_calls_are_recorded_even_if_the_process_exits_at_once(tmp_path: Path) -> None:
    attempt = run(tmp_path, *_LOG, _LOSS, "os._exit(0)")
    assert recorded(attempt) == [{"time": 1.5, "step": 3, "metrics": {"loss": 0.5}}]


def test_mlflow_calls_are_recorded_under_the_rank_of_the_process(tmp_path: Path) -> None:
    rank = ("env", "RANK=9", "WORLD_SIZE=16")
    attempt = run(tmp_path, *rank, *_LOG, _LOSS, "client.getresponse()")
    process, line = recorded(attempt)
    assert process["process"] == {"rank": 9, "world_size": 16, "restart": 0}
    assert line == {"time": 1.5, "rank": 9, "step": 3, "metrics": {"loss": 0.5}}


def test_refused_calls_are_counted_at_the_end(tmp_path: Path) -> None:
    for body, expected in ((_LOSS, []), ("{}", [{"refused_calls": 1}])):
        attempt = run(tmp_path, *_LOG, body, "client.getresponse()")
        assert known(attempt.exit).code == 0, attempt.file("stderr").read_text()
        counts = [line["not_recorded"] for line in recorded(attempt) if "not_recorded" in line]
        assert counts == expected
