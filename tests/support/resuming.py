"""A training that is killed at chosen steps, to be held against the same one undisturbed."""

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
"""Of ``digits``."""
SAVED_EVERY = 4
_MAX_PAUSE_SECONDS = 0.05
_SAME = (
    *(names.TRAIN_LOSS, names.LEARNING_RATE, "bytes_sent", names.EPOCH, names.VAL_LOSS),
    *(names.TRAIN_ACCURACY, names.VAL_ACCURACY, names.BYTES_PER_STEP),
)


@dataclass(frozen=True)
class Trained:
    """What a run has left."""

    run: Run
    result: Result
    curves: dict[str, list[float]]
    """All values on its line, by series, but those that depend on time."""
    discarded: dict[str, list[float]]
    """The same of what is not on it."""

    @property
    def figures(self) -> tuple[float | None, ...]:
        """Those of the result that do not depend on time."""
        r = self.result
        return (r.last_value, r.best_value, r.epochs, r.samples, r.bytes_sent_per_step)

    def equals(self, other: "Trained") -> bool:
        """Tell whether both have the same values and figures, to the last bit."""
        return (self.curves, self.figures) == (other.curves, other.figures)


def train(client: ApiClient, home: Home, workers: int, epochs: int, kills: int) -> Trained:
    """Train ``digits`` to its end, and kill a rank at so many random steps before the last epoch.

    A kill comes up to 50 ms after its step was recorded: anywhere in the next, or in a save but
    the first: there, a rank without a checkpoint takes another's, and its score so far.
    """
    args = {"epochs": str(epochs), "goal": "100", "checkpoint_steps": str(SAVED_EVERY)}
    order = client.create_run(
        f"killed-{kills}-times", workers, 1, benchmark="digits", max_restarts=kills, args=args
    )
    run = order.result().value
    dice = random.Random(workers)  # noqa: S311 - which steps does not matter
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
    """Wait until a rank has recorded a step, by its own file, and return its process."""
    processes: list[tuple[psutil.Process, Path]] = []

    def is_there() -> bool:
        for process in training(home, rank):
            with suppress(psutil.NoSuchProcess):  # of the attempt before
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
