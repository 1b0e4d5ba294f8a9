"""Divisions, and violations of the closed division's rules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.records import GitState, ReportedMachine
from mlbench.evaluation.inputs import InjectedFault
from mlbench.evaluation.official_rules import division, rule_violations
from tests.mlbench.evaluation.making import make_run
from tests.support.ranks import finish, start_ranks

COMMITTED = ReportedMachine(hostname="a", git=GitState("0123abc", dirty=False, root="/a"))
CHANGED = ReportedMachine(hostname="b", git=GitState("0123abc", dirty=True, root="/a"))
STEADY = {"seconds": 0.5, "rounds": 1000, "warmup": 5, "check": True}


def violations(settings: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    """Return the rule violations of a run that reported these settings."""
    run = make_run(**{"benchmark": "communication", "settings": settings, **fields})
    return rule_violations(run, [])


def permitted(benchmark: str) -> dict[str, Any]:
    """Return the settings that a task's rules name first."""
    return {name: values[0] for name, values in BENCHMARKS[benchmark].rules.items()}


def test_official_tasks_are_in_the_closed_division() -> None:
    assert division(make_run(benchmark="digits")) == "closed"
    assert division(make_run(benchmark="", command="python main.py")) == "open"


@pytest.mark.slow
def test_a_real_run_follows_the_rules(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 1, "-m", "mlbench_worker.tasks.digits", "--goal", "90")
    finish(ranks)
    [settings] = ranks[0].stated("settings")
    assert violations(dict(settings), benchmark="digits") == []


def test_each_violation_is_a_sentence() -> None:
    settings = permitted("digits")
    changed = settings | {"learning_rate": 0.1, "compression": "fp16", "goal": 95.0, "seed": 9}
    assert violations(settings, benchmark="digits") == []
    assert violations(changed, benchmark="digits") == [
        "compression is fp16; the task's rules say none",
        "goal is 95; the task's rules say 97 or 90",
        "learning_rate is 0.1; the task's rules say 0.05",
    ]


def test_a_recipe_determines_the_learning_rate() -> None:
    settings = permitted("cifar10-resnet")
    for recipe, rate, other in (("he-2015", 0.1, 0.02), ("mlbench-2020", 0.02, 0.1)):
        chosen = settings | {"recipe": recipe, "learning_rate": rate}
        assert violations(chosen, benchmark="cifar10-resnet") == []
        [sentence] = violations(chosen | {"learning_rate": other}, benchmark="cifar10-resnet")
        assert sentence == f"learning_rate is {other}; the task's rules say {rate}"
    short = settings | {"recipe": "one-cycle", "learning_rate": 0.2}
    [sentence] = violations(short, benchmark="cifar10-resnet")
    assert sentence == "epochs is 164; the task's rules say 8"


def test_other_data_than_the_standard_data_is_a_violation() -> None:
    [sentence] = violations(permitted("digits") | {"data_sha256": "0123"}, benchmark="digits")
    assert sentence.startswith("the data is not the standard data: data_sha256 is 0123; ")


def test_violations_show_values_as_on_the_command_line() -> None:
    for changed, sentence in (
        ({"check": False}, "check is false; the task's rules say true"),
        ({"rounds": None}, "rounds is none; the task's rules say 1000"),
        ({"seconds": 2.25}, "seconds is 2.25; the task's rules say 0.5"),
    ):
        assert violations(STEADY | changed) == [sentence]
    without = {name: value for name, value in STEADY.items() if name != "warmup"}
    assert violations(without) == ["warmup is not stated; the task's rules say 5"]
    assert violations(None, state="STARTED") == []
    assert violations(None, state="FAILED") == ["the run has not stated its settings"]
    assert violations(None, benchmark="steps", state="FINISHED") == [], "the benchmark has no rules"


def test_uncommitted_code_is_a_violation() -> None:
    run = make_run()
    assert rule_violations(run, [COMMITTED, ReportedMachine(hostname="c"), ReportedMachine()]) == []
    [sentence] = rule_violations(run, [COMMITTED, CHANGED, CHANGED])
    assert sentence == "the code that ran has changes that are not committed"


def test_the_open_division_has_no_rules() -> None:
    own = make_run(benchmark="", command="python main.py", state="FINISHED", settings={"goal": 1})
    assert rule_violations(own, [CHANGED]) == []


def test_limits_without_effect_are_violations() -> None:
    run = make_run(max_bandwidth=20.0, num_cpus=0.5)
    # The kernel rounds rates, and a worker bound to cores has no CPU limit.
    in_force = ReportedMachine(bandwidth_limit=20.000001, cpu_limit=0.5)
    assert rule_violations(run, [in_force, ReportedMachine(bandwidth_limit=19.0)]) == []
    unlimited = ReportedMachine(bandwidth_limit=100.0, cpu_limit=2.0)
    bandwidth, cores = rule_violations(run, [in_force, unlimited])
    assert bandwidth == "the bandwidth of workers was not limited to 20 Mbit/s, but to 100"
    assert cores == "the time of workers was not limited to 0.5 cores, but to 2"
    run = make_run(latency_ms=5.0, loss_percent=1.0)
    in_force = ReportedMachine(latency_ms=5.0, loss_percent=0.999999)
    assert rule_violations(run, [in_force]) == []
    latency, loss = rule_violations(run, [in_force, ReportedMachine(loss_percent=0.5)])
    assert latency == "what workers sent was not 5 ms late, but 0"
    assert loss == "what workers sent was not 1 % lost, but 0.5"


def test_failures_are_violations_once_they_happen() -> None:
    by_hand = InjectedFault(0, "kill", due_at=5.0, at=5.0)
    planned = InjectedFault(0, "kill", seconds=9.0)
    run = make_run(injected=(by_hand, planned, replace(by_hand, at=None)))
    assert rule_violations(run, []) == ["failures were injected by hand: 1"]
    run = make_run(faults="kill:every=15s", injected=(planned,))
    assert rule_violations(run, []) == ["failures were ordered: kill:every=15s"]


def test_a_run_without_a_newer_option_follows_the_rules() -> None:
    usual = permitted("digits")
    del usual["recipe"]
    assert violations(usual, benchmark="digits") == []
    tuned = violations(usual | {"recipe": "tuned", "learning_rate": 0.02}, benchmark="digits")
    assert tuned == ["recipe is tuned; the task's rules say standard"]
