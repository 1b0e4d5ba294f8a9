"""Make the reference convergence points: ``nice python -m benchmarks.convergence [TASK …]``.

Each task is trained to its goal 20 times with each batch size, by its own module, on one worker: on
any number, it would be the same model. Beside the batch size and the learning rate, which is the
one of two with which it converges faster, all settings are those of the closed division. The light
goal's epochs are those of the same runs. The seeds are none that a set has by itself. As many runs
as there are cores go on at once: epochs are counted here, not seconds.

It writes ``master/references/TASK.json``. The tasks on CIFAR-10, ImageNet and LIBSVM's data, and
the LSTM, have no points yet: who has the data and the machines adds them to the table below.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import machine
from master.benchmarks import BENCHMARKS, Benchmark
from mlbench import names
from mlbench.stated import reaches

_SEEDS = range(1000, 1020)
_MOST_EPOCHS = 100
# The learning rate by batch size.
_TASKS: Mapping[str, Mapping[int, float]] = {
    "digits": {64: 0.05, 128: 0.05, 256: 0.05},
    "digits-linear": {64: 0.5, 128: 0.5, 256: 1.0, 512: 2.0},
    "sotu-gpt": {32: 3e-3},
}
# Where the learning rate depends on how many epochs there are, they are those of the task's rules.
_EPOCHS = {"sotu-gpt": 20}
_FOLDER = Path(__file__).parents[1] / "master" / "references"


def main() -> None:
    """Train, and write a file for each task."""
    for name in sys.argv[1:] or _TASKS:
        made = {
            "task": name,
            "made_by": "python -m benchmarks.convergence",
            "made_on": f"{machine()}, PyTorch {version('torch')}, one thread, seeds "
            f"{_SEEDS[0]} to {_SEEDS[-1]}",
            "points": list(_points(BENCHMARKS[name], _TASKS[name])),
        }
        (_FOLDER / f"{name}.json").write_text(json.dumps(made, indent=2) + "\n")


def _points(task: Benchmark, rates: Mapping[int, float]) -> Iterator[dict[str, object]]:
    assert task.goal
    assert task.light_goal
    for batch_size, rate in rates.items():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            curves = list(pool.map(partial(_train, task, batch_size, rate), _SEEDS))
        lower = task.goal.lower_is_better
        for goal in (task.goal.value, task.light_goal.value):
            reached = [[reaches(x, goal, lower_is_better=lower) for x in one] for one in curves]
            epochs = [1 + one.index(True) for one in reached]
            print(task.name, goal, batch_size, rate, epochs, flush=True)
            yield {
                "goal": goal,
                "batch_size": batch_size,
                "learning_rate": rate,
                "epochs": epochs,
            }


def _train(task: Benchmark, batch_size: int, rate: float, seed: int) -> list[float]:
    """Return the value of the goal's metric after each epoch, until it is reached."""
    assert task.goal
    metric = task.goal.metric
    options = {
        "batch-size": batch_size,
        "learning-rate": rate,
        "seed": seed,
        "epochs": _EPOCHS.get(task.name, _MOST_EPOCHS),
    }
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        subprocess.run(
            [
                *(sys.executable, "-m", task.module),
                *(f"--{name}={value}" for name, value in options.items()),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", names.ENV_METRICS_FILE: str(metrics)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    recorded = [line["metrics"] for line in lines if "metrics" in line]
    return [one[metric] for one in recorded if metric in one]


if __name__ == "__main__":
    main()
