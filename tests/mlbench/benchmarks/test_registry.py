"""The benchmark registry matches the task modules: options, defaults, goals and rules."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlbench.benchmarks.benchmark import Benchmark
from mlbench.benchmarks.options import permitted, read
from mlbench.benchmarks.registry import BENCHMARKS, IMAGES, MISSING_IMAGES, find_image
from mlbench.client import MLBENCH_IMAGES
from mlbench.contract.fields import describe
from tests.support.metrics_file import lines as lines_of
from tests.support.processes import run_text

EACH = pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=list(BENCHMARKS))

# Prints the imports of each module given as an argument. The first module is imported without
# PyTorch. PyTorch is then imported once for all others, because importing it takes seconds.
_IMPORT_EACH = """
import importlib, os, sys
for module in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(module)
        print(module, *sys.modules, flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
    import torch
"""
# Reads lines from stdin: a benchmark, its options and its metrics file. One process runs all
# benchmarks, because importing PyTorch takes seconds. A task reports its goal before it looks for
# its data.
_RUN_ALL = """
import importlib, json, os, sys
from mlbench import MLBenchError
from mlbench.client import MLBENCH_IMAGES
from mlbench.benchmarks.options import read
from mlbench.benchmarks.registry import BENCHMARKS
for line in sys.stdin:
    name, arguments, os.environ["MLBENCH_METRICS_FILE"] = json.loads(line)
    benchmark = BENCHMARKS[name]
    try:
        importlib.import_module(benchmark.module).main(read(benchmark.options, arguments))
    except MLBenchError as error:
        print(name, error)
"""
# Options that shorten the tasks whose data is available or that need no data.
_IN_ONE_STEP = {"epochs": "1", "batch_size": "1347"}
_SHORT = {"digits": _IN_ONE_STEP, "digits-linear": _IN_ONE_STEP, "steps": {"steps": "1"}}


@EACH
def test_a_task_accepts_the_options_of_its_registry_entry(benchmark: Benchmark) -> None:
    arguments = {**benchmark.args, **benchmark.light_args}
    arguments |= {"backend": benchmark.backends[-1]} if benchmark.backends else {}
    arguments |= {"device": "cuda"} if benchmark.on_gpu else {}
    read(benchmark.options, arguments)


def test_every_image_of_the_original_is_mapped_or_refused_with_a_reason() -> None:
    images = {image.partition(":")[0] for image, *_ in MLBENCH_IMAGES.values()}
    assert IMAGES.keys() | MISSING_IMAGES.keys() == images
    assert not IMAGES.keys() & MISSING_IMAGES.keys()
    assert all(image.benchmark in BENCHMARKS for image in IMAGES.values())


def test_images_map_to_benchmarks() -> None:
    for name, image in IMAGES.items():
        for tag in ("", ":latest", ":v2.1.0"):
            assert find_image(name + tag) == image
        read(BENCHMARKS[image.benchmark].options, image.args)

    official = "mlbench/pytorch-backend-benchmark"
    for other in (f"{official}@latest", f"{official}:", f"docker.io/{official}", official[8:]):
        assert find_image(other) is None
    missing = "mlbench/pytorch-wmt16-gnmt-all-reduce:latest"
    assert [find_image(name) for name in ("", "digits", "custom_image", missing)] == [None] * 4


def test_a_task_imports_no_unused_package() -> None:
    steps, *others = sorted(BENCHMARKS.values(), key=lambda task: task.name != "steps")
    modules = [steps.module, *{task.module for task in others}]
    program = [sys.executable, "-c", _IMPORT_EACH, *modules]
    lines = subprocess.check_output(program, text=True).splitlines()
    assert [line.split()[0] for line in lines] == modules
    none_of = {"sklearn", "scipy", "pandas", "matplotlib", "jax", "tensorflow", "httpx"}
    for line in lines:
        module, *loaded = line.split()
        not_here = {"torch", "numpy", "prometheus_client"} if module == steps.module else set()
        assert not {*loaded} & (none_of | not_here), module


# --- Rules. ---


@EACH
def test_only_free_or_permitted_options_may_differ_from_the_defaults(benchmark: Benchmark) -> None:
    facts = {name: right[0] for name, right in benchmark.facts.items()}
    usual: dict[str, Any] = vars(read(benchmark.options, benchmark.args)) | facts
    assert benchmark.broken_rules(usual) == {}
    for name, option in describe(benchmark.options).items():
        changed = benchmark.broken_rules(usual | {name: "another"})
        assert set(changed) == (set() if permitted(option) is None else {name})


def test_permitted_alternatives_to_the_defaults() -> None:
    rules = {name: benchmark.rules for name, benchmark in BENCHMARKS.items()}
    assert rules["digits"]["goal"] == (97.0, 90.0)
    assert rules["digits"]["exchange"] == ("ddp", "flat", "per-layer")
    assert rules["steps"] == {}
    assert (rules["linear-svm"]["model"], rules["ridge-regression"]["goal"]) == (("svm",), (None,))


# --- Goals. ---


@pytest.mark.slow
def test_goals_match_those_reported_by_the_tasks(tmp_path: Path) -> None:
    files, goals, calls = {}, {}, []
    for task in BENCHMARKS.values():
        for light in (False, True):
            # A task without a light target keeps its usual goal.
            goals[task.name, light] = (light and task.light_target) or task.target
            chosen = {**task.args, **(task.light_args if light else {})}
            file = files[task.name, light] = tmp_path / f"{task.name}-{light}"
            calls.append([task.name, chosen | _SHORT.get(task.name, {}), str(file)])
    # The data is neither on this machine nor downloadable.
    nowhere = {"MLBENCH_DATASETS": str(tmp_path / "none"), "https_proxy": "http://127.0.0.1:9"}
    command, lines = [sys.executable, "-c", _RUN_ALL], "\n".join(map(json.dumps, calls))
    run_text(command, input=lines, env=os.environ | nowhere, check=True)
    for key, goal in goals.items():
        recorded = lines_of(files[key]) if files[key].exists() else []
        reported = next(filter(None, (line.get("goal") for line in recorded)), None)
        assert reported == (goal and dataclasses.asdict(goal)), key
