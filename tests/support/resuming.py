"""Training that is killed at chosen steps, for comparison with an undisturbed run."""

import random
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.contract.results import Result
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.stacks import assert_counted, run_to_end, training

EPOCH_STEPS = 11
"""Steps per epoch of ``digits``."""
SAVED_EVERY = 4
_MAX_PAUSE_SECONDS = 0.05
_SAME = (
    *(names.TRAIN_LOSS, names.LEARNING_RATE, "bytes_sent", names.EPOCH, names.VAL_LOSS),
    *(names.TRAIN_ACCURACY, names.VAL_ACCURACY, names.BYTES_PER_STEP),
)


@dataclass(frozen=True)
class Trained:
    """A finished run with its result and curves."""

    run: Run
    result: Result
    curves: dict[str, list[float]]
    """Time-independent values in the run's final lineage, by series."""
    discarded: dict[str, list[float]]
    """Time-independent values of discarded steps, by series."""

    @property
    def figures(self) -> tuple[float | None, ...]:
        """Time-independent metrics of the result."""
        r = self.result
        return (r.last_value, r.best_value, r.epochs, r.samples, r.bytes_sent_per_step)

    def equals(self, other: "Trained") -> bool:
        """Return whether both have identical values and metrics."""
        return (self.curves, self.figures) == (other.curves, other.figures)


def train(client: ApiClient, home: Home, workers: int, epochs: int, kills: int) -> Trained:
    """Train ``digits``, and kill a rank at ``kills`` random steps before the last epoch.

    A kill comes up to 50 ms after its step was recorded: in the next step, or in a save. It never
    hits the first save, because a rank without a checkpoint takes another rank's, including its
    score so far.
    """
    args = {"epochs": str(epochs), "goal": "100", "checkpoint_steps": str(SAVED_EVERY)}
    order = client.create_run(
        f"killed-{kills}-times", workers, 1, benchmark="digits", max_restarts=kills, args=args
    )
    run = order.result().value
    dice = random.Random(workers)  # noqa: S311 - not for cryptography
    steps = sorted(dice.sample(range(SAVED_EVERY + 1, EPOCH_STEPS * (epochs - 1)), kills))
    for attempt, step in enumerate(steps, 1):
        victim = _at_step(home, dice.randrange(workers), attempt, step)
        time.sleep(dice.uniform(0, _MAX_PAUSE_SECONDS))
        victim.kill()
    ended = run_to_end(client, run, seconds=300)
    assert (ended.state, ended.attempt) == ("FINISHED", 1 + kills), ended.reason
    assert_counted(ended)
    curves, discarded = (_curves(client, run, line) for line in ("final", "discarded"))
    return Trained(ended, client.get_result(run.id).result().value, curves, discarded)


def _curves(client: ApiClient, run: Run, line: str) -> dict[str, list[float]]:
    series = client.get_run_metrics(run.id, metric_filter=_SAME, lineage=line).result().value  # type: ignore[arg-type]
    return {name: [point.number for point in points] for name, points in series.items()}


def _at_step(home: Home, rank: int, attempt: int, step: int) -> psutil.Process:
    """Wait until a rank's metrics file contains a step, and return the rank's process."""
    processes: list[tuple[psutil.Process, Path]] = []

    def is_there() -> bool:
        for process in training(home, rank):
            with suppress(psutil.NoSuchProcess):  # a process of the previous attempt
                environ = process.environ()
                if environ[names.ENV_ATTEMPT] == str(attempt):
                    processes.append((process, Path(environ[names.ENV_METRICS_FILE])))
        return bool(processes)

    wait_for(is_there, what=f"attempt {attempt} of rank {rank}")
    process, file = processes[0]

    def is_done() -> bool:
        return max(map(int, re.findall(rb'"step":(\d+)', file.read_bytes())), default=0) >= step

    wait_for(is_done, what=f"step {step} of rank {rank}")
    return process
