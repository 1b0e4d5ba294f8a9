"""The rules say something of every option of every task, and agree with what the tasks do."""

import dataclasses
import importlib
from typing import Any

import pytest

from master.benchmarks import BENCHMARKS, Benchmark
from master.rules import FREE

# What a task states though no option of it says so, and though an option says otherwise.
_STATED = {
    "cifar10-resnet": {"data_sha256"},
    "imagenet-resnet": {"classes", "train_images", "validation_images"},
    "digits": {"data_sha256"},
    "digits-linear": {"data_sha256"},
}
_STATED_OTHERWISE: dict[str, dict[str, Any]] = {"ridge-regression": {"goal": None}}
EACH = pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=list(BENCHMARKS))


def defaults(benchmark: Benchmark) -> dict[str, Any]:
    """Return each option of a task with the value that it has by itself."""
    config = importlib.import_module(benchmark.module).Config
    own: dict[str, Any] = {option.name: option.default for option in dataclasses.fields(config)}
    return {**own, **benchmark.args, **_STATED_OTHERWISE.get(benchmark.name, {})}


@EACH
def test_each_option_is_ruled_or_free(benchmark: Benchmark) -> None:
    """For a new one, somebody has to decide."""
    options = defaults(benchmark).keys()
    assert options - FREE == benchmark.rules.keys() - _STATED.get(benchmark.name, set())
    assert not benchmark.rules.keys() & FREE


@EACH
def test_the_usual_value_comes_first(benchmark: Benchmark) -> None:
    usual = {name: permitted[0] for name, permitted in benchmark.rules.items()}
    assert usual.items() <= (usual | defaults(benchmark)).items()


@EACH
def test_the_light_goal_is_within_the_rules(benchmark: Benchmark) -> None:
    for name, value in benchmark.light_args.items():
        assert float(value) in benchmark.rules[name]


def test_nothing_is_free_that_no_task_has() -> None:
    assert set().union(*map(defaults, BENCHMARKS.values())) >= FREE
