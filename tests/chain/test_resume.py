"""A restarted run goes on from its last checkpoint as if nothing had happened."""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from mlbench import ApiClient, names
from mlbench.home import Home
from mlbench.records import Run, Series
from tests.conftest import wait_for
from tests.support.stacks import assert_counted, run_to_end, training

_EPOCHS = 6
_EPOCH_STEPS = 11
_STEPS = _EPOCHS * _EPOCH_STEPS
_SHARE = 64  # of a batch of 128

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Recorded:
    """What a rank has recorded, in the order in which it did."""

    losses: list[tuple[int, float]]
    """With the step of each."""
    epochs: list[float]
    samples: list[float]
    train_seconds: list[tuple[int, float]]
    """With the step of each."""


@pytest.fixture(scope="module")
def undisturbed(stack: Home) -> list[Recorded]:
    with ApiClient.from_home(stack) as client:
        ended = run_to_end(client, order(client, "undisturbed"), seconds=120)
        assert ended.state == "FINISHED", ended.reason
        return recorded(client, ended)


def order(client: ApiClient, name: str, max_restarts: int = 0) -> Run:
    """Order a training of two workers that takes all its epochs."""
    args = {"epochs": str(_EPOCHS), "goal": "100"}
    ordered = client.create_run(
        name, 2, benchmark="digits", num_cpus=1, max_restarts=max_restarts, args=args
    )
    return ordered.result().value


def recorded(client: ApiClient, run: Run) -> list[Recorded]:
    """Return what each rank has recorded."""
    series = client.get_run_metrics(run.id).result().value
    return [_of_rank(series, rank) for rank in range(2)]


def _of_rank(series: Series, rank: int) -> Recorded:
    def values(metric: str) -> list[float]:
        return [point.number for point in series[f"{metric} @ {rank}"]]

    steps = {point.date: round(point.number) for point in series[f"{names.STEP} @ {rank}"]}

    def by_step(metric: str) -> list[tuple[int, float]]:
        return [(steps[point.date], point.number) for point in series[f"{metric} @ {rank}"]]

    return Recorded(
        by_step(names.TRAIN_LOSS),
        values(names.EPOCH),
        values(names.SAMPLES),
        by_step(names.TRAIN_SECONDS),
    )


def second_attempt(numbers: Sequence[float]) -> Sequence[float]:
    """Return what follows the only fall of numbers that rise in each attempt."""
    falls = [i for i, (one, next_one) in enumerate(pairwise(numbers), 1) if next_one <= one]
    assert len(falls) == 1
    return numbers[falls[0] :]


def kill_within_an_epoch(process: psutil.Process, metrics_file: Path) -> int:
    """Kill a training that has done two epochs, and return how many it had done."""
    while True:
        process.suspend()
        epochs, steps = divmod(last_step(metrics_file), _EPOCH_STEPS)
        # Its peer is at most one step off, so that has begun the same epoch.
        if epochs >= 2 and steps >= 2:
            process.kill()
            return epochs
        process.resume()
        time.sleep(0.05)


def line_count(metrics_file: Path) -> int:
    """Return how many lines there are; the first is the agent's, from before the training."""
    return metrics_file.read_text().count("\n")


def last_step(metrics_file: Path) -> int:
    *_, last = metrics_file.read_text().splitlines()
    step: int = json.loads(last).get("step", 0)
    return step


@pytest.mark.parametrize("name", ["killed", "killed-and-folder-lost"])
def test_a_killed_training_goes_on(stack: Home, undisturbed: list[Recorded], name: str) -> None:
    with ApiClient.from_home(stack) as client:
        ordered = order(client, name, max_restarts=1)
        worker = stack.workers / f"{names.LOCAL_POD_PREFIX}1"
        files = f"run-{ordered.id}-attempt-1-rank-1-*/metrics.jsonl"
        wait_for(lambda: any(line_count(file) > 1 for file in worker.glob(files)), 60, "it trains")
        [metrics_file] = worker.glob(files)
        [victim] = training(stack, rank=1)
        epochs_done = kill_within_an_epoch(victim, metrics_file)
        if name == "killed-and-folder-lost":
            shutil.rmtree(worker / "checkpoints" / f"run-{ordered.id}")
        ended = run_to_end(client, ordered, seconds=120)
        assert ended.state == "FINISHED", ended.reason
        assert ended.attempt == 2
        assert_counted(ended)
        ranks = recorded(client, ended)

    for rank, expected in zip(ranks, undisturbed, strict=True):
        assert expected.epochs == list(range(_EPOCHS))
        assert second_attempt(rank.epochs) == list(range(epochs_done, _EPOCHS))
        steps = second_attempt([step for step, _ in rank.losses])
        assert steps == list(range(epochs_done * _EPOCH_STEPS + 1, _STEPS + 1))
        same = dict(expected.losses)
        assert all(loss == same[step] for step, loss in rank.losses), "to the last bit"
        assert rank.samples[-1] == expected.samples[-1] == _STEPS * _SHARE

        # What lies between the last epoch's end and where the second attempt begins is lost.
        at_resume = [i for i, (step, _) in enumerate(rank.train_seconds) if step == steps[0] - 1]
        done, _, resumed = at_resume
        seconds = [at for _, at in rank.train_seconds]
        counted = seconds[: done + 1] + seconds[resumed:]
        # Who was given rank 0's checkpoint goes on with its clock, which may be a bit behind.
        behind = 0.5 if name == "killed-and-folder-lost" else 0.0
        assert all(later >= before - behind for before, later in pairwise(counted))
