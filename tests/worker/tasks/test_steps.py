"""The steps task: records known values, each at its time, and starts at once."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from mlbench import names
from tests.worker.ranks import finish, start_ranks
from worker.tasks.steps import train_loss

_TASK = ("-m", "worker.tasks.steps")


def test_each_step_is_recorded_with_its_value(tmp_path: Path) -> None:
    [rank] = start_ranks(tmp_path, 1, *_TASK, "--steps", "250", "--rate", "1000")
    finish([rank])
    losses = rank.series(names.TRAIN_LOSS)
    assert losses == [train_loss(step) for step in range(1, 251)]
    assert all(later < earlier for earlier, later in pairwise(losses))
    assert rank.series(names.EPOCH) == [0, 1, 2]
    assert rank.series(names.SAMPLES)[-1] == 250


@pytest.mark.parametrize("rate", [100, 2000])
def test_the_rate_is_kept(rate: int, tmp_path: Path) -> None:
    [rank] = start_ranks(tmp_path, 1, *_TASK, f"--steps={rate}", f"--rate={rate}")
    finish([rank])
    stated, *lines = map(json.loads, rank.metrics_file.read_text().splitlines())
    assert stated["settings"] == {"steps": rate, "rate": rate}
    times = [line["time"] for line in lines if names.TRAIN_LOSS in line["metrics"]]
    assert times[-1] - times[0] == pytest.approx(1.0, rel=0.1)


def test_it_starts_without_pytorch() -> None:
    program = "import sys, worker.tasks.steps; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"torch", "numpy", "sklearn", "prometheus_client", "httpx"}
