"""A run's division, and where it leaves the rules of its task."""

from typing import Any

import pytest
from peewee import Database

from master.results.division import division, rule_violations
from tests.master.making import make_run
from tests.worker.ranks import finish, start_ranks

COMMITTED = {"hostname": "a", "git": {"commit": "0123abc", "dirty": False, "root": "/a"}}
CHANGED = {"hostname": "b", "git": {"commit": "0123abc", "dirty": True, "root": "/a"}}
STEADY = {"seconds": 0.5, "rounds": 1000, "warmup": 5, "check": True}


def leaves(settings: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    """Return the departures of a run that states these settings."""
    run = make_run(**{"benchmark": "communication", "settings": settings, **fields})
    return rule_violations(run, [])


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a real run of a task states."""
    ranks = start_ranks(
        tmp_path_factory.mktemp("digits"), 1, "-m", "worker.tasks.digits", "--goal", "90"
    )
    finish(ranks)
    [settings] = ranks[0].stated("settings")
    return dict(settings)


def test_official_tasks_are_the_closed_division(database: Database) -> None:
    assert division(make_run(benchmark="digits")) == "closed"
    assert division(make_run(benchmark="", command="python main.py")) == "open"


def test_a_real_run_keeps_the_rules(database: Database, digits: dict[str, Any]) -> None:
    assert leaves(digits, benchmark="digits") == []


def test_each_departure_is_a_sentence(database: Database, digits: dict[str, Any]) -> None:
    changed = digits | {"learning_rate": 0.1, "compression": "fp16", "goal": 95.0, "seed": 9}
    assert leaves(changed, benchmark="digits") == [
        "goal is 95; the task's rules say 97 or 90",
        "learning_rate is 0.1; the task's rules say 0.05",
        "compression is fp16; the task's rules say none",
    ]


def test_other_data_depart(database: Database, digits: dict[str, Any]) -> None:
    [sentence] = leaves(digits | {"data_sha256": "0" * 64}, benchmark="digits")
    right = digits["data_sha256"]
    assert sentence == f"data_sha256 is {'0' * 64}; the task's rules say {right}"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"check": False}, "check is false; the task's rules say true"),
        ({"rounds": None}, "rounds is none; the task's rules say 1000"),
        ({"seconds": 2.25}, "seconds is 2.25; the task's rules say 0.5"),
    ],
)
def test_values_are_written_as_on_the_command_line(
    database: Database, changed: dict[str, Any], sentence: str
) -> None:
    assert leaves(STEADY) == []
    assert leaves(STEADY | changed) == [sentence]


def test_what_is_not_stated_is_not_known(database: Database) -> None:
    without = {name: value for name, value in STEADY.items() if name != "warmup"}
    assert leaves(without) == ["warmup is not stated; the task's rules say 5"]
    assert leaves(None, state="STARTED") == []
    assert leaves(None, state="FAILED") == ["the run has not stated its settings"]
    assert leaves(None, benchmark="steps", state="FINISHED") == [], "it has no rules"


def test_code_that_is_not_committed_departs(database: Database) -> None:
    run = make_run(benchmark="steps")
    assert rule_violations(run, [COMMITTED, {"hostname": "c", "git": None}, {}]) == []
    [sentence] = rule_violations(run, [COMMITTED, CHANGED, CHANGED])
    assert sentence == "the code that ran has changes that are not committed"


def test_the_open_division_has_no_rules(database: Database) -> None:
    own = make_run(benchmark="", command="python main.py", state="FINISHED", settings={"goal": 1})
    assert rule_violations(own, [CHANGED]) == []


def test_limits_that_are_not_in_force_depart(database: Database) -> None:
    run = make_run(benchmark="steps", max_bandwidth=20.0, num_cpus=0.5)
    # The kernel rounds, and a worker that is bound to cores has no limit of time.
    in_force = {"bandwidth_limit": 20.000001, "cpu_limit": 0.5}
    assert rule_violations(run, [in_force, {"bandwidth_limit": 19.0, "cpu_limit": None}]) == []
    assert rule_violations(run, [in_force, {"bandwidth_limit": 100.0, "cpu_limit": 2.0}]) == [
        "the bandwidth of workers was not limited to 20 Mbit/s, but to 100",
        "the time of workers was not limited to 0.5 cores, but to 2",
    ]
