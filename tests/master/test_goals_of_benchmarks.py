"""What the registry says that a benchmark trains for is what the task itself states."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from master.benchmarks import BENCHMARKS, Benchmark

# Each line of stdin is a module with arguments, and the file for its metrics. In one process, as
# PyTorch takes seconds to be imported. A task states its goal before it looks for its data.
_RUN_ALL = """
import importlib, json, os, sys
from mlbench import MLBenchError
from worker.training import options
for line in sys.stdin:
    module, arguments, os.environ["MLBENCH_METRICS_FILE"] = json.loads(line)
    task = importlib.import_module(module)
    try:
        task.main(options.parse(task.Config, arguments))
    except MLBenchError as error:
        print(module, error)
"""
# What makes a task short that has its data, or needs none.
_IN_ONE_STEP = ["--epochs=1", "--batch-size=1347"]
_SHORT = {"digits": _IN_ONE_STEP, "digits-linear": _IN_ONE_STEP, "steps": ["--steps=1"]}


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, bool], Any]:
    """The goal that each task stated, by its name and whether it was to be the light one."""
    folder = tmp_path_factory.mktemp("goals")
    files, calls = {}, []
    for one in BENCHMARKS.values():
        for light in (False, True):
            chosen = {**one.args, **(one.light_args if light else {})}
            arguments = [f"--{key}={value}" for key, value in chosen.items()]
            file = files[one.name, light] = folder / f"{one.name}-{light}"
            calls.append([one.module, arguments + _SHORT.get(one.name, []), str(file)])
    # No data here, and none from elsewhere.
    nowhere = {"MLBENCH_DATASETS": str(folder / "none"), "https_proxy": "http://127.0.0.1:9"}
    subprocess.run(
        [sys.executable, "-c", _RUN_ALL],
        input="\n".join(map(json.dumps, calls)),
        stdout=subprocess.DEVNULL,
        env=os.environ | nowhere,
        check=True,
        text=True,
    )
    return {key: read_goal(file) for key, file in files.items()}


def read_goal(file: Path) -> Any:
    lines = file.read_text().splitlines() if file.exists() else []
    goals = [json.loads(line).get("goal") for line in lines]
    return next(filter(None, goals), None)


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=list(BENCHMARKS))
def test_the_goals_are_those_that_the_task_states(
    benchmark: Benchmark, stated: Mapping[tuple[str, bool], Any]
) -> None:
    goal, light = benchmark.goal, benchmark.light_goal
    assert (goal and asdict(goal)) == stated[benchmark.name, False]
    # Asked for the light one, a task without goes on as ever.
    assert (goal and asdict(light or goal)) == stated[benchmark.name, True]
    assert (light is not None) == bool(benchmark.light_args)
