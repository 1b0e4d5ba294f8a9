"""The totals in the agent's files: what a scrape finds is what the training process did."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from mlbench.contract import names
from tests.support.processes import run_text

_RANK = {"run_id": "7", "rank": "1"}

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


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    folder = tmp_path / "counters"
    folder.mkdir()
    return folder


def train(counters: Path, end: str, steps: int = 20, begin: str = "") -> tuple[int, dict[str, Any]]:
    """Run a training process; return its exit code and what it says that it did."""
    environ = {
        **os.environ,
        names.ENV_MULTIPROC_DIR: str(counters),
        names.ENV_METRICS_FILE: str(counters.parent / "metrics.jsonl"),
        names.ENV_RUN_ID: _RANK["run_id"],
        names.ENV_RANK: _RANK["rank"],
    }
    done = run_text(
        [sys.executable, "-c", _TRAINING.format(steps=steps, begin=begin, end=end)], env=environ
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def scrape(counters: Path) -> dict[str, float]:
    """Return the totals by name, phases as ``name/phase``, as the agent's collector finds them."""
    totals = {}
    for metric in MultiProcessCollector(CollectorRegistry(), str(counters)).collect():
        for sample in metric.samples:
            labels = dict(sample.labels)
            assert labels.pop("run_id") == _RANK["run_id"]
            assert labels.pop("rank") == _RANK["rank"]
            name = "/".join([sample.name, *labels.values()])
            totals[name] = sample.value
    return totals


def test_totals_are_what_was_done(counters: Path) -> None:
    before = time.time()
    code, report = train(counters, end="t.close(); t.close(); t.step(samples=1); t.close()")
    totals = scrape(counters)
    assert code == 0
    assert totals[names.WORKER_STEPS] == 20
    assert totals[names.WORKER_SAMPLES] == 320
    phases = {
        phase: totals[f"{names.WORKER_PHASE_SECONDS}/{phase}"]
        for phase in names.PHASES
        if totals.get(f"{names.WORKER_PHASE_SECONDS}/{phase}")
    }
    assert phases == pytest.approx(report["phases"])
    assert set(phases) == {"forward", "communication", "evaluation"}
    assert before < totals[names.WORKER_PROGRESS] < time.time()
    assert totals[f"{names.WORKER_STEP_SECONDS}_count"] == 20
    assert totals[f"{names.WORKER_STEP_SECONDS}_bucket/0.0025"] == 0, "a step takes 3 ms"
    # Up to the last step: what follows it belongs to none.
    assert 20 * 0.003 <= totals[f"{names.WORKER_STEP_SECONDS}_sum"] <= report["train_seconds"]


def test_a_restarted_training_counts_what_it_does_itself(counters: Path) -> None:
    # As after a checkpoint of 500 steps, in an attempt with counters of its own.
    train(
        counters,
        steps=3,
        begin="""
t.load_state_dict({"steps": 500, "samples": 8000, "goal_reached": False, "train_seconds": 900.0,
                   "phase_seconds": {"forward": 700.0, "evaluation": 60.0}})
""",
        end="t.close()",
    )
    totals = scrape(counters)
    assert totals[names.WORKER_STEPS] == 3
    assert totals[names.WORKER_SAMPLES] == 48
    assert 0.006 <= totals[f"{names.WORKER_PHASE_SECONDS}/forward"] < 60
    assert 0.1 <= totals[f"{names.WORKER_PHASE_SECONDS}/evaluation"] < 60
    assert totals[f"{names.WORKER_STEP_SECONDS}_count"] == 3
    assert totals[f"{names.WORKER_STEP_SECONDS}_sum"] < 60


def test_totals_of_processes_that_were_killed_or_met_a_full_disk_add_up(counters: Path) -> None:
    # The metrics file has no room; the totals are in files of their own.
    limit = "t._recorder._file = os.open('/dev/full', os.O_WRONLY); t.close()"
    code, _ = train(counters, end=limit)
    assert (code, scrape(counters)[names.WORKER_STEPS]) == (1, 20)
    code, _ = train(counters, end="time.sleep(0.3); t.step(samples=16); os.kill(os.getpid(), 9)")
    assert code == -signal.SIGKILL
    found = scrape(counters)
    assert (found[names.WORKER_STEPS], found[names.WORKER_SAMPLES]) == (41, 656)


def test_an_evaluation_counts_as_progress(counters: Path) -> None:
    before = time.time()
    train(counters, steps=0, end="")
    assert scrape(counters)[names.WORKER_PROGRESS] > before
