"""MLPerf's scores, reference convergence, divisions, and violations of the closed division."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.comparisons import Group
from mlbench.contract.names import VAL_ACCURACY
from mlbench.contract.records import GitState, Planned, ReportedMachine, RunSet, Target
from mlbench.contract.results import Result, TimeToTarget
from mlbench.evaluation import official_rules
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.inputs import InjectedFault
from mlbench.evaluation.official_rules import (
    Entry,
    ReferencePoint,
    Window,
    choose,
    division,
    find,
    mean_of_runs,
    prune,
    rule_violations,
)
from tests.mlbench.evaluation.making import make_facts, make_result, make_run
from tests.support.known import known
from tests.support.ranks import finish, start_ranks

_NEVER = math.inf
PLAN = [Planned(1, seed) for seed in range(1, 11)]


def run(run_id: int, seconds: float | None = 20.0, epochs: int = 10, **given: Any) -> Result:
    """Return a run of digits that reached its target after so long; None: it did not."""
    reached = None if seconds is None else TimeToTarget(seconds - 5, seconds, epochs)
    target = Target(VAL_ACCURACY, 97.0)
    return make_result(run_id, time_to_target=reached, target=target, **given)


def official(*states: str) -> RunSet:
    entries = [Entry(i, i, i, state, "") for i, state in enumerate(states, 1)]
    places = official_rules.slots_of("set", PLAN, entries, official=True)
    return RunSet("set", "", True, None, {}, places, official_rules.describe(places))


def group(results: list[Result], *sets: RunSet, batch_size: str = "128") -> Group:
    facts = {one.run_id: make_facts(batch_size=batch_size) for one in results}
    [found] = compare(results, facts, sets).groups
    return found


def test_an_official_set_has_a_score_also_with_a_run_that_crashed() -> None:
    runs = [run(i, seconds=10.0 + i) for i in range(1, 10)]
    found = known(group(runs, official(*["FINISHED"] * 9, "FAILED")).score)
    assert (found.seconds, found.normalized_seconds) == (15.5, 15.5)
    assert found.run_ids == tuple(range(1, 11))
    assert found.text == "official score of set set: 15.5 s"


def test_two_runs_that_miss_the_target_make_it_invalid() -> None:
    runs = [run(i, None if i == 3 else 20.0) for i in range(1, 11)]
    found = known(group(runs, official(*["FINISHED"] * 9, "FAILED")).score)
    assert (found.seconds, found.run_ids) == (None, ())
    assert found.text == (
        "no official score of set set: invalid: 2 of 10 runs did not reach the target"
    )


def test_no_run_can_be_left_out() -> None:
    told = "no official score of set set: 9 of its 10 runs are compared"
    for runs, states in (
        ([run(i) for i in range(1, 10)], ["FINISHED"] * 10),
        ([run(i) for i in range(1, 10)], ["FINISHED"] * 9 + ["STARTED"]),
    ):
        assert known(group(runs, official(*states)).score).text == told


def test_runs_that_are_not_official_have_no_score() -> None:
    assert group([run(i) for i in (1, 2, 3)]).score is None


def test_runs_that_converge_faster_than_the_reference_are_marked_and_normalized() -> None:
    usual = known(group([run(i) for i in range(1, 11)]).convergence)
    assert (usual.is_too_fast, usual.factor, usual.epochs) == (False, 1.0, 10)
    fast = group([run(i, epochs=8) for i in range(1, 11)], official(*["FINISHED"] * 10))
    convergence = known(fast.convergence)
    reference = known(convergence.reference_epochs)
    assert (convergence.is_too_fast, convergence.factor) == (True, reference / 8)
    assert known(fast.score).normalized_seconds == 20 * reference / 8
    assert "fewer than it allows for so many runs (8.99; t-test" in convergence.text


def test_a_batch_beyond_the_reference_and_a_task_without_one() -> None:
    beyond = known(group([run(i) for i in (1, 2, 3)], batch_size="512").convergence)
    assert (beyond.reference_epochs, beyond.factor) == (None, 1.0)
    assert group([run(i) for i in (1, 2)]).convergence is None, "too few"
    assert group([run(i, benchmark="steps") for i in (1, 2, 3)]).convergence is None


def test_tasks_whose_data_comes_along_have_a_reference_of_20_runs_to_both_targets() -> None:
    for name in ("digits", "digits-linear"):
        task = BENCHMARKS[name]
        for target in (known(task.target), known(task.light_target)):
            run = make_result(1, benchmark=name, target=target)
            batch_size = str(task.rules["batch_size"][0])
            reference = known(official_rules.reference_of(run, {"batch_size": batch_size}))
            assert len(reference.points) >= 3
            assert all(point.runs == 18 for point in reference.points)


@pytest.mark.parametrize(("recipe", "has_one"), [("one-cycle", True), ("he-2015", False)])
def test_a_reference_is_of_its_recipe_alone(recipe: str, has_one: bool) -> None:
    result = make_result(1, benchmark="cifar10-resnet", target=BENCHMARKS["cifar10-resnet"].target)
    found = official_rules.reference_of(result, {"batch_size": "128", "recipe": recipe})
    assert (found is not None) == has_one


def test_the_fastest_and_the_slowest_are_dropped_and_one_may_have_failed() -> None:
    assert mean_of_runs([9, 1, 5, 6, 7]) == 6
    assert mean_of_runs([9, 1, 5, 6, _NEVER]) == 20 / 3
    assert mean_of_runs([9, 1, 5, _NEVER, _NEVER]) == _NEVER


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([3.0, 1, 2, 5, 4], Window(0, 3)),
        # The rules' example, "Scoring": 10 runs, windows of 5, of which there are 6.
        ([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10], Window(3, 6)),
        # Any failed run counts as infinite, and is dropped as the slowest of its window.
        ([1.0, 2, 3, 4, _NEVER, 6, 7, 8, 9, 10], Window(3, 7)),
        # Two have failed, but no window of 5 has both.
        ([1.0, 2, _NEVER, 4, 5, 6, 7, 8, _NEVER, 10], Window(2, 6)),
        # Two windows are invalid, and count as infinite.
        ([1.0, _NEVER, _NEVER, 4, 5, 6, 7, 8, 9], Window(4, 7)),
    ],
)
def test_of_more_runs_the_window_with_the_median_score_counts(
    seconds: list[float], expected: Window
) -> None:
    assert choose(seconds, size=5) == expected


def test_if_the_median_window_is_invalid_so_is_the_result() -> None:
    assert choose([1.0, 2, 3, _NEVER, _NEVER, 6], size=5).score == _NEVER


# --- The examples of MLPerf's rules ("Appendix: RCP Examples") ---

# Benchmark A, of which a submission has 5 runs.
SMALL = ReferencePoint.of(128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
LARGE = ReferencePoint.of(256, [20, 21, 21, 20, 22, 22, 21, 21, 20, 20])
COUNTED = 3


@pytest.mark.parametrize(
    ("point", "mean", "deviation", "least", "speedup"),
    [(SMALL, 15.75, 0.43, 15.21, 0.0353), (LARGE, 20.75, 0.66, 19.93, 0.0412)],
)
def test_the_least_epochs_that_a_reference_allows(
    point: ReferencePoint, mean: float, deviation: float, least: float, speedup: float
) -> None:
    assert (point.mean, round(point.deviation, 2)) == (mean, deviation)
    found = point.least_epochs(COUNTED)
    assert (round(found, 2), round(point.mean / found - 1, 4)) == (least, speedup)


def passes(batch_size: int, epochs: list[float]) -> bool:
    point = known(find([LARGE, SMALL], batch_size))
    return mean_of_runs(epochs) >= point.least_epochs(COUNTED)


def test_submissions_pass_or_fail() -> None:
    assert passes(128, [15, 15, 15, 16, 16]), "S1"
    assert not passes(256, [19, 19, 19, 20, 21]), "S2"
    assert passes(192, [17, 18, 18, 18, 20]), "S3"
    assert find([SMALL, LARGE], 512) is None, "S4"
    assert passes(64, [15, 16, 16, 16, 17]), "S5"
    assert not passes(64, [13, 14, 14, 14, 15]), "S6"


def test_in_between_mean_and_deviation_are_interpolated() -> None:
    found = known(find([SMALL, LARGE], 192))
    assert (found.mean, round(found.deviation, 3)) == (18.25, 0.547)
    assert round(found.mean / found.least_epochs(COUNTED) - 1, 4) == 0.0368


def test_points_above_the_line_between_others_count_for_nothing() -> None:
    ten, twenty, again = (
        ReferencePoint(size, mean, 1, 8) for size, mean in ((128, 10), (256, 20), (512, 20))
    )
    # The example of the rules.
    assert prune([twenty, again, ten]) == [ten, again]
    fast = ReferencePoint(1024, 9, 1, 8)
    assert prune([ten, twenty, again, fast]) == [fast]
    # Once 384 is gone, 256 is above the line from 128 to 512.
    points = [
        ten,
        ReferencePoint(256, 14.5, 1, 8),
        ReferencePoint(384, 17, 1, 8),
        ReferencePoint(512, 12, 1, 8),
    ]
    assert prune(points) == [ten, points[-1]]


COMMITTED = ReportedMachine(hostname="a", git=GitState("0123abc", dirty=False, root="/a"))
CHANGED = ReportedMachine(hostname="b", git=GitState("0123abc", dirty=True, root="/a"))
STEADY = {"seconds": 0.5, "rounds": 1000, "warmup": 5, "check": True}


def violations(settings: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    """Return the violations of a run that states these settings."""
    run = make_run(**{"benchmark": "communication", "settings": settings, **fields})
    return rule_violations(run, [])


def test_official_tasks_are_the_closed_division() -> None:
    assert division(make_run(benchmark="digits")) == "closed"
    assert division(make_run(benchmark="", command="python main.py")) == "open"


@pytest.mark.slow
def test_a_real_run_keeps_the_rules(tmp_path: Path) -> None:
    ranks = start_ranks(tmp_path, 1, "-m", "mlbench_worker.tasks.digits", "--goal", "90")
    finish(ranks)
    [settings] = ranks[0].stated("settings")
    assert violations(dict(settings), benchmark="digits") == []


def test_each_violation_is_a_sentence() -> None:
    settings = {name: permitted[0] for name, permitted in BENCHMARKS["digits"].rules.items()}
    changed = settings | {"learning_rate": 0.1, "compression": "fp16", "goal": 95.0, "seed": 9}
    assert violations(settings, benchmark="digits") == []
    assert violations(changed, benchmark="digits") == [
        "compression is fp16; the task's rules say none",
        "goal is 95; the task's rules say 97 or 90",
        "learning_rate is 0.1; the task's rules say 0.05",
    ]


def test_a_recipe_has_a_learning_rate_of_its_own() -> None:
    rules = BENCHMARKS["cifar10-resnet"].rules
    settings = {name: permitted[0] for name, permitted in rules.items()}
    for recipe, rate, other in (("he-2015", 0.1, 0.02), ("mlbench-2020", 0.02, 0.1)):
        chosen = settings | {"recipe": recipe, "learning_rate": rate}
        assert violations(chosen, benchmark="cifar10-resnet") == []
        assert violations(chosen | {"learning_rate": other}, benchmark="cifar10-resnet") == [
            f"learning_rate is {other}; the task's rules say {rate}"
        ]
    short = settings | {"recipe": "one-cycle", "learning_rate": 0.2}
    [sentence] = violations(short, benchmark="cifar10-resnet")
    assert sentence == "epochs is 164; the task's rules say 8"


def test_other_data_than_the_standard_is_said_to_be() -> None:
    settings = {name: permitted[0] for name, permitted in BENCHMARKS["digits"].rules.items()}
    [sentence] = violations(settings | {"data_sha256": "0123"}, benchmark="digits")
    assert sentence.startswith("the data is not the standard data: data_sha256 is 0123; ")


def test_values_are_written_as_on_the_command_line() -> None:
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
    assert violations(None, benchmark="steps", state="FINISHED") == [], "it has no rules"


def test_code_that_is_not_committed_is_a_violation() -> None:
    run = make_run()
    assert rule_violations(run, [COMMITTED, ReportedMachine(hostname="c"), ReportedMachine()]) == []
    [sentence] = rule_violations(run, [COMMITTED, CHANGED, CHANGED])
    assert sentence == "the code that ran has changes that are not committed"


def test_the_open_division_has_no_rules() -> None:
    own = make_run(benchmark="", command="python main.py", state="FINISHED", settings={"goal": 1})
    assert rule_violations(own, [CHANGED]) == []


def test_limits_that_are_not_in_force_are_violations() -> None:
    run = make_run(max_bandwidth=20.0, num_cpus=0.5)
    # The kernel rounds, and a worker that is bound to cores has no limit of time.
    in_force = ReportedMachine(bandwidth_limit=20.000001, cpu_limit=0.5)
    assert rule_violations(run, [in_force, ReportedMachine(bandwidth_limit=19.0)]) == []
    assert rule_violations(
        run, [in_force, ReportedMachine(bandwidth_limit=100.0, cpu_limit=2.0)]
    ) == [
        "the bandwidth of workers was not limited to 20 Mbit/s, but to 100",
        "the time of workers was not limited to 0.5 cores, but to 2",
    ]
    run = make_run(latency_ms=5.0, loss_percent=1.0)
    in_force = ReportedMachine(latency_ms=5.0, loss_percent=0.999999)
    assert rule_violations(run, [in_force]) == []
    assert rule_violations(run, [in_force, ReportedMachine(loss_percent=0.5)]) == [
        "what workers sent was not 5 ms late, but 0",
        "what workers sent was not 1 % lost, but 0.5",
    ]


def test_failures_are_violations_once_they_happen() -> None:
    by_hand = InjectedFault(0, "kill", due_at=5.0, at=5.0)
    planned = InjectedFault(0, "kill", seconds=9.0)
    run = make_run(injected=(by_hand, planned, replace(by_hand, at=None)))
    assert rule_violations(run, []) == ["failures were injected by hand: 1"]
    run = make_run(faults="kill:every=15s", injected=(planned,))
    assert rule_violations(run, []) == ["failures were ordered: kill:every=15s"]


def test_a_run_from_before_there_was_an_option_keeps_the_rules() -> None:
    rules = BENCHMARKS["digits"].rules
    usual = {name: permitted[0] for name, permitted in rules.items() if name != "recipe"}
    assert violations(usual, benchmark="digits") == []
    tuned = violations(usual | {"recipe": "tuned", "learning_rate": 0.02}, benchmark="digits")
    assert tuned == ["recipe is tuned; the task's rules say standard"]
