"""The steps task records known values at a fixed rate, and starts at once."""

from itertools import pairwise
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench_worker.tasks.steps import train_loss
from tests.support.ranks import run_ranks

_TASK = ("-m", "mlbench_worker.tasks.steps")


def test_each_step_is_recorded_with_its_value_at_the_rate(tmp_path: Path) -> None:
    [rank] = run_ranks(tmp_path, 1, *_TASK, "--steps=1250", "--rate=1250")
    losses = rank.series(names.TRAIN_LOSS)
    assert losses == [train_loss(step) for step in range(1, 1251)]
    assert all(later < earlier for earlier, later in pairwise(losses))
    assert rank.series(names.EPOCH) == list(range(13))
    assert rank.series(names.SAMPLES)[-1] == 1250
    assert rank.stated("settings") == [{"steps": 1250, "rate": 1250}]
    times = [line["time"] for line in rank.lines() if names.TRAIN_LOSS in line.get("metrics", {})]
    assert times[-1] - times[0] == pytest.approx(1.0, rel=0.1)
