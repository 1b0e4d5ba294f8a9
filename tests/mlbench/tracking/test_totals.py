"""The totals file: counters of a training process for scrapes."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract import names
from mlbench.contract.names import PHASES
from mlbench.tracking.totals import STEP_BOUNDS, Totals
from tests.support.processes import run_text

_TRAINING = """
import json, os, sys, time
from mlbench import Tracker

t = Tracker()
{begin}
t.epoch(0)
for i in range({steps}):
    with t.phase("forward"):
        time.sleep(0.002)
    with t.phase("communication"):
        time.sleep(0.001)
    t.step(samples=16, train_loss=0.5)
with t.phase("evaluation"):
    time.sleep(0.1)
print(json.dumps({{"phases": t.phase_seconds(), "train_seconds": t.train_seconds}}))
sys.stdout.flush()
{end}
"""


def train(folder: Path, end: str, steps: int = 20, begin: str = "") -> tuple[int, dict[str, Any]]:
    """Run a training process; return its exit code and its report."""
    own = {names.ENV_METRICS_FILE: str(folder / "metrics.jsonl"), names.ENV_RANK: "1"}
    code = _TRAINING.format(steps=steps, begin=begin, end=end)
    done = run_text([sys.executable, "-c", code], env=os.environ | own)
    return done.returncode, json.loads(done.stdout)


def totals_in(folder: Path) -> Totals:
    """Return the totals of all processes of the rank."""
    return Totals.unpack(*(path.read_bytes() for path in folder.glob("metrics.jsonl.1.*.totals")))


def test_totals_match_the_training(tmp_path: Path) -> None:
    before = time.time()
    code, report = train(tmp_path, end="t.close(); t.close(); t.step(samples=1); t.close()")
    totals = totals_in(tmp_path)
    assert code == 0
    assert (totals.steps, totals.samples) == (20, 320)
    phases = dict(zip(PHASES, totals.phase_seconds, strict=True))
    phases = {phase: seconds for phase, seconds in phases.items() if seconds}
    assert phases == pytest.approx(report["phases"])
    assert set(phases) == {"forward", "communication", "evaluation"}
    assert before < totals.progress_at < time.time()
    assert sum(totals.step_counts) == 20
    assert not any(totals.step_counts[: STEP_BOUNDS.index(0.0025) + 1]), "steps take at least 3 ms"
    # Time after the last step does not belong to a step.
    assert 20 * 0.003 <= totals.step_seconds <= report["train_seconds"]


def test_a_restarted_training_counts_only_its_own_work(tmp_path: Path) -> None:
    # Like a restart from a checkpoint of 500 steps in an attempt with new totals.
    state: Any = {"steps": 500, "samples": 8000, "goal_reached": False, "train_seconds": 900.0}
    state["phase_seconds"] = {"forward": 700.0, "evaluation": 60.0}
    train(tmp_path, steps=3, begin=f"t.load_state_dict({state})", end="t.close()")
    totals = totals_in(tmp_path)
    assert (totals.steps, totals.samples) == (3, 48)
    phases = dict(zip(PHASES, totals.phase_seconds, strict=True))
    assert 0.006 <= phases["forward"] < 60
    assert 0.1 <= phases["evaluation"] < 60
    assert sum(totals.step_counts) == 3
    assert totals.step_seconds < 60


def test_totals_of_killed_processes_and_with_a_full_disk_add_up(tmp_path: Path) -> None:
    # The metrics file is full, but the totals have separate files.
    limit = "t._recorder._file = os.open('/dev/full', os.O_WRONLY); t.close()"
    code, _ = train(tmp_path, end=limit)
    assert (code, totals_in(tmp_path).steps) == (1, 20)
    code, _ = train(tmp_path, end="time.sleep(0.3); t.step(samples=16); os.kill(os.getpid(), 9)")
    assert code == -signal.SIGKILL
    found = totals_in(tmp_path)
    assert (found.steps, found.samples) == (41, 656)


def test_an_evaluation_counts_as_progress(tmp_path: Path) -> None:
    before = time.time()
    train(tmp_path, steps=0, end="")
    assert totals_in(tmp_path).progress_at > before
