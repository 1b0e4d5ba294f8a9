"""An attempt's folder tells everything to the next agent."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mlbench import names
from mlbench.assignment import Assignment
from worker.agent.attempt import Attempt
from worker.agent.process import Exit

ASSIGNMENT = Assignment(
    run_id=7,
    attempt=2,
    rank=1,
    world_size=4,
    master_addr="10.0.0.1",
    master_port=29500,
    command=("python", "-c", "pass"),
    cpus=(2, 3),
    keeps_checkpoints=True,
    working_dir="/tmp",
    seed=42,
    deadline_at=1_900_000_000.25,
)


def test_the_machine_is_stated_in_the_first_line(tmp_path: Path) -> None:
    attempt = Attempt.create(tmp_path, ASSIGNMENT)
    before = time.time()
    attempt.state({"hostname": "h\ud800", "packages": {"torch": "2"}})
    text = attempt.file("metrics").read_text()
    assert text.endswith("\n")
    [line] = map(json.loads, text.splitlines())
    assert before <= line.pop("time") <= time.time()
    assert line == {"machine": {"hostname": "h?", "packages": {"torch": "2"}}}


def test_an_unfinished_attempt_was_killed_with_its_agent(tmp_path: Path) -> None:
    attempt = Attempt.create(tmp_path, ASSIGNMENT)
    attempt.file("metrics").write_bytes(b"12345")
    found = Attempt.resume(tmp_path)
    assert found is not None
    assert found.assignment == ASSIGNMENT
    assert found.exit is not None
    assert found.exit.code == -9
    assert found.ended.is_set()
    assert found.sizes() == {"stdout": 0, "stderr": 0, "metrics": 5}


def test_how_it_ended_is_remembered(tmp_path: Path) -> None:
    attempt = Attempt.create(tmp_path, ASSIGNMENT)
    attempt._note_exit(Exit(3, 1234.5))
    found = Attempt.resume(tmp_path)
    assert found is not None
    assert found.exit == Exit(3, 1234.5)


def test_a_forgotten_attempt_is_not_found_but_its_counters_stay(tmp_path: Path) -> None:
    attempt = Attempt.create(tmp_path, ASSIGNMENT)
    attempt.forget()
    assert Attempt.resume(tmp_path) is None
    assert attempt.counters.is_dir()


@pytest.mark.parametrize(
    ("run_id", "attempt", "left"),
    [
        (7, 2, ["run-7"]),
        (7, 1, []),  # left by a run of the same number, of a master that is no more
        (8, 1, []),
        (8, 2, []),
    ],
)
def test_only_later_attempts_find_checkpoints(
    tmp_path: Path, run_id: int, attempt: int, left: list[str]
) -> None:
    for saved in (6, 7):
        folder = tmp_path / "checkpoints" / f"run-{saved}"
        folder.mkdir(parents=True)
        (folder / "epoch-00000001.pt").touch()
    starting = Attempt.create(tmp_path, replace(ASSIGNMENT, run_id=run_id, attempt=attempt))
    starting.remove_old_checkpoints()
    assert [folder.name for folder in (tmp_path / "checkpoints").iterdir()] == left


@pytest.fixture(autouse=True)
def _no_other_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a process ends all children of an agent; those of a test shall live."""
    monkeypatch.setattr("worker.agent.process._end_children", lambda keep: None)


@pytest.mark.parametrize("keeps", [True, False])
def test_only_a_run_that_keeps_checkpoints_is_told_where(keeps: bool, tmp_path: Path) -> None:
    assignment = replace(
        ASSIGNMENT, keeps_checkpoints=keeps, cpus=(), command=("sh", "-c", "printenv")
    )
    attempt = Attempt.create(tmp_path, assignment)
    attempt.start({"PATH": "/bin:/usr/bin"}, on_exit=lambda: None)
    assert attempt.ended.wait(10)
    told = attempt.file("stdout").read_text()
    assert (f"MLBENCH_CHECKPOINTS={attempt.checkpoints}" in told) == keeps


def test_the_process_gets_what_torch_distributed_needs(tmp_path: Path) -> None:
    seen = tmp_path / "environ"
    command = ("sh", "-c", f"env > {seen}")
    attempt = Attempt.create(tmp_path, replace(ASSIGNMENT, command=command, cpus=()))
    ended: list[bool] = []
    attempt.start({"PATH": "/bin"}, on_exit=lambda: ended.append(True))
    assert attempt.ended.wait(10)
    variables = dict(line.partition("=")[::2] for line in seen.read_text().splitlines())
    assert (
        variables.items()
        >= {
            "PATH": "/bin",
            "RANK": "1",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "4",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "29500",
            "MLBENCH_RUN_ID": "7",
            "MLBENCH_ATTEMPT": "2",
            "MLBENCH_RANK": "1",
            "MLBENCH_SEED": "42",
            "MLBENCH_METRICS_FILE": str(attempt.file("metrics")),
            "PROMETHEUS_MULTIPROC_DIR": str(attempt.counters),
        }.items()
    )


def test_the_deadline_is_by_the_clock_of_this_machine(tmp_path: Path) -> None:
    attempt = Attempt.create(
        tmp_path, replace(ASSIGNMENT, cpus=(), command=("printenv", names.ENV_DEADLINE))
    )
    attempt.start({"PATH": "/bin:/usr/bin"}, lambda: None, clock_offset_seconds=-0.5)
    assert attempt.ended.wait(10)
    assert float(attempt.file("stdout").read_text()) == 1_900_000_000.25 - 0.5


def test_a_run_without_seed_and_deadline_is_told_none(tmp_path: Path) -> None:
    assignment = replace(ASSIGNMENT, cpus=(), command=("printenv",), seed=None, deadline_at=None)
    attempt = Attempt.create(tmp_path, assignment)
    attempt.start({"PATH": "/bin:/usr/bin"}, on_exit=lambda: None)
    assert attempt.ended.wait(10)
    told = attempt.file("stdout").read_text()
    assert names.ENV_RANK in told
    assert names.ENV_SEED not in told
    assert names.ENV_DEADLINE not in told
