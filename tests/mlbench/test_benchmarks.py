"""The registry of benchmarks agrees with the tasks: their options, defaults, goals and rules."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlbench.benchmarks import BENCHMARKS, FREE_SETTINGS, IMAGES, Benchmark, find_image
from mlbench.options import read

EACH = pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=list(BENCHMARKS))

# What a task states though no option of it says so, and though an option says otherwise.
_STATED = {
    "cifar10-resnet": {"data_sha256"},
    "imagenet-resnet": {"classes", "train_samples", "validation_samples"},
    "digits": {"data_sha256"},
    "digits-linear": {"data_sha256"},
    "wikitext2-lstm": {"train_samples", "validation_samples", "vocabulary"},
    "sotu-lstm": {"data_sha256"},
    "sotu-gpt": {"data_sha256"},
}
_STATED_OTHERWISE: dict[str, dict[str, Any]] = {"ridge-regression": {"goal": None}}

# Each line of stdin is a benchmark with options, and the file for its metrics. In one process, as
# PyTorch takes seconds to be imported. A task states its goal before it looks for its data.
_RUN_ALL = """
import importlib, json, os, sys
from mlbench import MLBenchError
from mlbench.options import read
from mlbench.benchmarks import BENCHMARKS
for line in sys.stdin:
    name, arguments, os.environ["MLBENCH_METRICS_FILE"] = json.loads(line)
    benchmark = BENCHMARKS[name]
    try:
        importlib.import_module(benchmark.module).main(read(benchmark.options, arguments))
    except MLBenchError as error:
        print(name, error)
"""
# What makes a task short that has its data, or needs none.
_IN_ONE_STEP = {"epochs": "1", "batch_size": "1347"}
_SHORT = {"digits": _IN_ONE_STEP, "digits-linear": _IN_ONE_STEP, "steps": {"steps": "1"}}


def defaults(benchmark: Benchmark) -> dict[str, Any]:
    """Return each option of a task with its default."""
    own = {option.name: option.default for option in dataclasses.fields(benchmark.options)}
    return {**own, **benchmark.args, **_STATED_OTHERWISE.get(benchmark.name, {})}


@EACH
def test_a_task_takes_what_an_order_may_make_of_its_entry(benchmark: Benchmark) -> None:
    arguments = {**benchmark.args, **benchmark.light_args}
    arguments |= {"backend": benchmark.backends[-1]} if benchmark.backends else {}
    arguments |= {"device": "cuda"} if benchmark.on_gpu else {}
    read(benchmark.options, arguments)


def test_images_stand_for_benchmarks() -> None:
    for name, image in IMAGES.items():
        for tag in ("", ":latest", ":v2.1.0"):
            assert find_image(name + tag) == image
        read(BENCHMARKS[image.benchmark].options, image.args)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "digits",
        "custom_image",
        "mlbench/pytorch-wikitext2-lstm-all-reduce:latest",
        "pytorch-backend-benchmark",
        "mlbench/pytorch-backend-benchmark@latest",
        "mlbench/pytorch-backend-benchmark:",
        "docker.io/mlbench/pytorch-backend-benchmark",
    ],
)
def test_other_images_stand_for_nothing(name: str) -> None:
    assert find_image(name) is None


# --- Rules. ---


@EACH
def test_each_option_is_ruled_or_free(benchmark: Benchmark) -> None:
    """For a new one, somebody has to decide."""
    ruled = benchmark.rules.keys()
    assert defaults(benchmark).keys() - FREE_SETTINGS == ruled - _STATED.get(benchmark.name, set())
    assert not ruled & FREE_SETTINGS
    usual = {name: permitted[0] for name, permitted in benchmark.rules.items()}
    assert usual.items() <= (usual | defaults(benchmark)).items()


def test_nothing_is_free_that_no_task_has() -> None:
    assert set().union(*map(defaults, BENCHMARKS.values())) >= FREE_SETTINGS


# --- Goals. ---


@pytest.mark.slow
def test_the_goals_are_those_that_the_tasks_state(tmp_path: Path) -> None:
    files, goals, calls = {}, {}, []
    for one in BENCHMARKS.values():
        for light in (False, True):
            # Asked for the light one, a task without goes on as ever.
            goals[one.name, light] = (light and one.light_goal) or one.goal
            chosen = {**one.args, **(one.light_args if light else {})}
            file = files[one.name, light] = tmp_path / f"{one.name}-{light}"
            calls.append([one.name, chosen | _SHORT.get(one.name, {}), str(file)])
    # No data here, and none from elsewhere.
    nowhere = {"MLBENCH_DATASETS": str(tmp_path / "none"), "https_proxy": "http://127.0.0.1:9"}
    subprocess.run(
        [sys.executable, "-c", _RUN_ALL],
        input="\n".join(map(json.dumps, calls)),
        stdout=subprocess.DEVNULL,
        env=os.environ | nowhere,
        check=True,
        text=True,
    )
    for key, goal in goals.items():
        assert read_goal(files[key]) == (goal and dataclasses.asdict(goal)), key


def read_goal(file: Path) -> Any:
    lines = file.read_text().splitlines() if file.exists() else []
    return next(filter(None, (json.loads(line).get("goal") for line in lines)), None)
