"""Scores of official sets, and the comparison with reference convergence."""

import math
from typing import Any

import pytest

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.comparisons import Group
from mlbench.contract.names import VAL_ACCURACY
from mlbench.contract.records import Planned, RunSet, Target
from mlbench.contract.results import Result, TimeToTarget
from mlbench.evaluation import official_rules
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.official_rules import Entry
from mlbench_mlperf import scoring
from mlbench_mlperf.scoring import ReferencePoint, Window, choose, find, mean_of_runs, prune
from tests.mlbench.evaluation.making import make_facts, make_result
from tests.support.known import known

_NEVER = math.inf
PLAN = [Planned(1, seed) for seed in range(1, 11)]


def run(run_id: int, seconds: float | None = 20.0, epochs: int = 10, **given: Any) -> Result:
    """Return a digits run with this time to target, or None if it missed the target."""
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


_NINE = [run(i, seconds=10.0 + i) for i in range(1, 10)]
_ONE_MISSED = [run(i, None if i == 3 else 20.0) for i in range(1, 11)]


@pytest.mark.parametrize(
    ("runs", "tenth", "seconds", "text"),
    [
        (_NINE, "FAILED", 15.5, "official score of set set: 15.5 s"),
        (_ONE_MISSED, "FAILED", None, "invalid: 2 of 10 runs did not reach the target"),
        (_NINE, "FINISHED", None, "9 of its 10 runs are compared"),
        (_NINE, "STARTED", None, "9 of its 10 runs are compared"),
    ],
)
def test_an_official_set_has_a_score_if_at_most_one_run_failed(
    runs: list[Result], tenth: str, seconds: float | None, text: str
) -> None:
    score = known(group(runs, official(*["FINISHED"] * 9, tenth)).score)
    assert (score.seconds, score.normalized_seconds) == (seconds, seconds)
    assert score.run_ids == (tuple(range(1, 11)) if seconds else ())
    assert score.text == (text if seconds else f"no official score of set set: {text}")


def test_unofficial_runs_have_no_score() -> None:
    assert group([run(i) for i in (1, 2, 3)]).score is None


def test_convergence_faster_than_the_reference_is_marked_and_normalized() -> None:
    usual = known(group([run(i) for i in range(1, 11)]).convergence)
    assert (usual.is_too_fast, usual.factor, usual.epochs) == (False, 1.0, 10)
    fast = group([run(i, epochs=8) for i in range(1, 11)], official(*["FINISHED"] * 10))
    convergence = known(fast.convergence)
    reference = known(convergence.reference_epochs)
    assert (convergence.is_too_fast, convergence.factor) == (True, reference / 8)
    assert known(fast.score).normalized_seconds == 20 * reference / 8
    assert "fewer than it allows for so many runs (8.99; t-test" in convergence.text


def test_convergence_needs_a_reference_for_the_task_and_batch_size() -> None:
    beyond = known(group([run(i) for i in (1, 2, 3)], batch_size="512").convergence)
    assert (beyond.reference_epochs, beyond.factor) == (None, 1.0)
    assert group([run(i) for i in (1, 2)]).convergence is None, "two runs are too few"
    assert group([run(i, benchmark="steps") for i in (1, 2, 3)]).convergence is None


def test_tasks_with_bundled_data_have_references_for_both_targets() -> None:
    for name in ("digits", "digits-linear"):
        task = BENCHMARKS[name]
        for target in (known(task.target), known(task.light_target)):
            run = make_result(1, benchmark=name, target=target)
            batch_size = str(task.rules["batch_size"][0])
            reference = known(scoring.reference_of(run, {"batch_size": batch_size}))
            assert len(reference.points) >= 3
            assert all(point.runs == 18 for point in reference.points)


@pytest.mark.parametrize(("recipe", "has_one"), [("one-cycle", True), ("he-2015", False)])
def test_a_reference_applies_to_one_recipe(recipe: str, has_one: bool) -> None:
    result = make_result(1, benchmark="cifar10-resnet", target=BENCHMARKS["cifar10-resnet"].target)
    found = scoring.reference_of(result, {"batch_size": "128", "recipe": recipe})
    assert (found is not None) == has_one


def test_the_mean_drops_the_fastest_and_the_slowest_run() -> None:
    assert mean_of_runs([9, 1, 5, 6, 7]) == 6
    assert mean_of_runs([9, 1, 5, 6, _NEVER]) == 20 / 3
    assert mean_of_runs([9, 1, 5, _NEVER, _NEVER]) == _NEVER


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([3.0, 1, 2, 5, 4], Window(0, 3)),
        # The example in section "Scoring" of the rules: 10 runs, so 6 windows of 5 runs.
        ([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10], Window(3, 6)),
        # A failed run counts as infinite and is dropped as the slowest of each window.
        ([1.0, 2, 3, 4, _NEVER, 6, 7, 8, 9, 10], Window(3, 7)),
        # Two runs failed, but no window of 5 contains both.
        ([1.0, 2, _NEVER, 4, 5, 6, 7, 8, _NEVER, 10], Window(2, 6)),
        # Two windows are invalid and count as infinite.
        ([1.0, _NEVER, _NEVER, 4, 5, 6, 7, 8, 9], Window(4, 7)),
    ],
)
def test_the_window_with_the_median_score_counts(seconds: list[float], expected: Window) -> None:
    assert choose(seconds, size=5) == expected


def test_an_invalid_median_window_invalidates_the_result() -> None:
    assert choose([1.0, 2, 3, _NEVER, _NEVER, 6], size=5).score == _NEVER


# --- The examples of MLPerf's rules ("Appendix: RCP Examples") ---

# Benchmark A. A submission has 5 runs.
SMALL = ReferencePoint.of(128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
LARGE = ReferencePoint.of(256, [20, 21, 21, 20, 22, 22, 21, 21, 20, 20])
COUNTED = 3


@pytest.mark.parametrize(
    ("point", "mean", "deviation", "least", "speedup"),
    [(SMALL, 15.75, 0.43, 15.21, 0.0353), (LARGE, 20.75, 0.66, 19.93, 0.0412)],
)
def test_a_reference_has_a_minimum_number_of_epochs(
    point: ReferencePoint, mean: float, deviation: float, least: float, speedup: float
) -> None:
    assert (point.mean, round(point.deviation, 2)) == (mean, deviation)
    found = point.least_epochs(COUNTED)
    assert (round(found, 2), round(point.mean / found - 1, 4)) == (least, speedup)


def passes(batch_size: int, epochs: list[float]) -> bool:
    point = known(find([LARGE, SMALL], batch_size))
    return mean_of_runs(epochs) >= point.least_epochs(COUNTED)


def test_submissions_are_checked_against_the_reference() -> None:
    assert passes(128, [15, 15, 15, 16, 16]), "S1"
    assert not passes(256, [19, 19, 19, 20, 21]), "S2"
    assert passes(192, [17, 18, 18, 18, 20]), "S3"
    assert find([SMALL, LARGE], 512) is None, "S4"
    assert passes(64, [15, 16, 16, 16, 17]), "S5"
    assert not passes(64, [13, 14, 14, 14, 15]), "S6"


def test_mean_and_deviation_are_interpolated_between_batch_sizes() -> None:
    found = known(find([SMALL, LARGE], 192))
    assert (found.mean, round(found.deviation, 3)) == (18.25, 0.547)
    assert round(found.mean / found.least_epochs(COUNTED) - 1, 4) == 0.0368


def test_points_above_the_line_between_two_others_are_removed() -> None:
    ten, twenty, again = (
        ReferencePoint(size, mean, 1, 8) for size, mean in ((128, 10), (256, 20), (512, 20))
    )
    # The example in the rules.
    assert prune([twenty, again, ten]) == [ten, again]
    fast = ReferencePoint(1024, 9, 1, 8)
    assert prune([ten, twenty, again, fast]) == [fast]
    # Without the point at 384, the one at 256 is above the line from 128 to 512.
    points = [
        ten,
        ReferencePoint(256, 14.5, 1, 8),
        ReferencePoint(384, 17, 1, 8),
        ReferencePoint(512, 12, 1, 8),
    ]
    assert prune(points) == [ten, points[-1]]
