"""Goodput of a killed run: its buckets match the times that the training measured."""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlbench import ApiClient
from tests.support.known import known
from tests.support.stacks import order_command, run_to_end

# The training saves every 25 steps, and kills itself after step 40 of its first attempt.
_TRAINING = """
import json, os, signal, sys, time
from pathlib import Path
from mlbench import Tracker

def spend(phase, seconds, state=None):
    began = time.perf_counter()
    with tracker.phase(phase):
        time.sleep(seconds)
        if state:
            tracker.load_state_dict(state)
    print(json.dumps([phase, time.perf_counter() - began]), flush=True)

with Tracker() as tracker:
    saved = Path(os.environ["MLBENCH_CHECKPOINTS"], os.environ["RANK"])
    if saved.exists():
        spend("restore", 0.5, json.loads(saved.read_text()))
        print(json.dumps(["restored", 0]), flush=True)
    tracker.epoch(0)
    while tracker.steps < 60:
        spend("forward", 0.1)
        spend("data", 0.03)
        tracker.step(samples=1)
        if tracker.steps % 25 == 0:
            spend("checkpoint", 0.4)
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_text(json.dumps(tracker.state_dict()))
            tracker.checkpoint(100)
            print(json.dumps(["saved", 0]), flush=True)
        if tracker.steps == 40 and os.environ["MLBENCH_ATTEMPT"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_the_cost_of_a_kill_matches_the_recorded_times(client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TRAINING)
    run = order_command(
        client,
        "killed",
        f"{sys.executable} train.py",
        num_workers=1,
        working_dir=str(tmp_path),
        max_restarts=1,
    )
    ended = run_to_end(client, run)
    assert (ended.state, ended.attempt) == ("FINISHED", 2), ended.reason
    goodput = client.get_goodput(run.id).result().value
    for rank in goodput.ranks:
        text = client.get_logs(run.id, rank.rank, attempt=rank.attempt).result().value.text
        expected, buckets = measured(text), {str(b): s for b, s in rank.seconds.items()}
        if rank.attempt == 1:
            assert expected["lost"] > 1.9
        for bucket, seconds in expected.items():
            assert buckets.get(bucket, 0.0) == pytest.approx(seconds, abs=0.2), (rank, expected)
    second = [rank.seconds for rank in goodput.ranks if rank.attempt == 2]
    assert all("restore" in seconds and "lost" not in seconds for seconds in second)
    assert sum(goodput.seconds.values()) == pytest.approx(
        sum(known(s) for rank in goodput.ranks for s in rank.seconds.values())
    )


def measured(text: str) -> Mapping[str, float]:
    """Return the seconds per bucket that an attempt measured. Time after its last save is lost."""
    lines = [json.loads(line) for line in text.splitlines()]
    whole = len(lines) == 0 or lines[-1][0] != "data" or ["restored", 0] in lines
    last = len(lines) if whole else max(i for i, (phase, _) in enumerate(lines) if phase == "saved")
    totals = Counter[str]()
    for i, (phase, seconds) in enumerate(lines):
        bucket = {"forward": "compute", "saved": "", "restored": ""}.get(phase, phase)
        totals[bucket if i < last else "lost"] += seconds
    del totals[""]
    return totals
