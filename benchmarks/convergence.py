"""Make the reference convergence points: ``nice python -m benchmarks.convergence [TASK …]``.

Each task is trained to its target 20 times with each batch size, by its own module, on one worker:
the number of workers does not change the model. The learning rate is the faster one of two; all
settings but batch size and learning rate follow the closed division. The epochs to the light target
come from the same runs. No set uses these seeds by default. One run per core is active at a time,
because epochs are counted, not seconds.

It rewrites ``extensions/mlbench_mlperf/references/TASK.json`` after each run. An interruption loses
the active runs, and the next call makes the missing ones. The tasks on ImageNet and on LIBSVM's
data have no points yet; to add them, extend the table below.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from mlbench.benchmarks.benchmark import Benchmark
from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract import names
from mlbench.contract.reported_settings import reaches

_SEEDS = range(1000, 1020)
_MAX_EPOCHS = 100
# Options by batch size. If the learning rate depends on the number of epochs, the number is the one
# in the rules of the task.
_TASKS: Mapping[str, Mapping[int, Mapping[str, Any]]] = {
    "digits": {size: {"batch_size": size, "learning_rate": 0.05} for size in (64, 128, 256)},
    "digits-linear": {
        size: {"batch_size": size, "learning_rate": rate}
        for size, rate in ((64, 0.5), (128, 0.5), (256, 1.0), (512, 2.0))
    },
    "sotu-gpt": {32: {"batch_size": 32, "learning_rate": 3e-3, "epochs": 20}},
    "sotu-lstm": {20: {"batch_size": 20, "learning_rate": 30.0, "epochs": 10}},
    "cifar10-resnet": {
        128: {"recipe": "one-cycle", "worker_batch_size": 128, "learning_rate": 0.2, "epochs": 8}
    },
}
_FOLDER = Path(__file__).parents[1] / "extensions" / "mlbench_mlperf" / "references"


def main() -> None:
    """Train each task with each batch size."""
    for name in sys.argv[1:] or _TASKS:
        for batch_size, options in _TASKS[name].items():
            _make_points(BENCHMARKS[name], batch_size, options)


def _make_points(task: Benchmark, batch_size: int, options: Mapping[str, Any]) -> None:
    """Train with the seeds that the points of a batch size lack, and add each run to its file."""
    assert task.target
    assert task.light_target
    file = _FOLDER / f"{task.name}.json"
    points = json.loads(file.read_text())["points"] if file.exists() else []
    of_size = [point for point in points if point["batch_size"] == batch_size]
    targets = {task.target.value, task.light_target.value} - {point["target"] for point in of_size}
    shared = {"batch_size": batch_size, "learning_rate": options["learning_rate"]}
    if "recipe" in options:
        shared["settings"] = {"recipe": options["recipe"]}
    in_order = sorted(targets, reverse=not task.target.lower_is_better)  # the light one is easier
    new = [{"target": target, **shared, "epochs": []} for target in in_order]
    points += new
    of_size += new
    missing = _SEEDS[min(len(point["epochs"]) for point in of_size) :]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for curve in pool.map(lambda seed: _train(task, {**options, "seed": seed}), missing):
            for point in of_size:
                lower = task.target.lower_is_better
                reached = [
                    reaches(value, point["target"], lower_is_better=lower) for value in curve
                ]
                point["epochs"].append(1 + reached.index(True))
                print(task.name, point["target"], batch_size, point["epochs"], flush=True)
            runs = max(len(point["epochs"]) for point in of_size)
            made_on = f"{machine()}, PyTorch {version('torch')}, one thread"
            document = {
                "task": task.name,
                "made_by": "python -m benchmarks.convergence",
                "made_on": f"{made_on}, seeds {_SEEDS[0]} to {_SEEDS[runs - 1]}",
                "points": points,
            }
            file.write_text(json.dumps(document, indent=2) + "\n")


def _train(task: Benchmark, options: Mapping[str, Any]) -> list[float]:
    """Return the value of the target's metric after each epoch, until it is reached."""
    assert task.target
    options = {"epochs": _MAX_EPOCHS, **options}
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        subprocess.run(
            [
                *(sys.executable, "-m", task.module),
                *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", names.ENV_METRICS_FILE: str(metrics)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    recorded = [line["metrics"] for line in lines if "metrics" in line]
    return [metrics[task.target.metric] for metrics in recorded if task.target.metric in metrics]


if __name__ == "__main__":
    main()
