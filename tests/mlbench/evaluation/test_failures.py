"""What runs kept between failures: by what is measured, and by the formula."""

from dataclasses import replace
from typing import Any

import pytest

from mlbench.evaluation.compare import compare
from mlbench.evaluation.young_daly import Costs, best_interval, goodput
from mlbench.report.tables import tables
from mlbench.results import Goodput, RankGoodput, Result
from tests.mlbench.evaluation.making import make_facts, make_result

# Of 10 steps of 2 s, each with a half for its checkpoint, and of those that were lost.
_FIRST: dict[Any, float] = {
    "queued": 9.0,
    "start": 3.0,
    "compute": 8.0,
    "checkpoint": 2.0,
    "lost": 1.0,
}
_LATER: dict[Any, float] = {
    "detection": 1.0,
    "restart": 2.0,
    "start": 3.0,
    "compute": 12.0,
    "checkpoint": 3.0,
}


def failing(run_id: int) -> Result:
    ranks = tuple(
        RankGoodput(rank, attempt, seconds)
        for rank in (0, 1)
        for attempt, seconds in ((1, _FIRST), (2, {**_LATER, "idle": 5.0}))
    )
    made = make_result(run_id, num_workers=2)
    return replace(
        made,
        goodput=Goodput(0.5, {}, ranks),
        step_seconds=2.5,
        training_seconds=25.0,
        phases={"checkpoint": 5.0, "compute": 20.0},
    )


def test_a_group_that_fails_is_held_against_the_formula() -> None:
    results = [failing(1), failing(2)]
    facts = {
        one.run_id: make_facts(2, faults="kill:every=30s", checkpoint_steps="4") for one in results
    }
    comparison = compare(results, facts)
    [found] = comparison.failures
    costs = Costs(checkpoint=2.0, restart=6.0, between=32.0)
    assert (found.group, found.failures, found.between_seconds) == (0, 2, 32)
    assert (found.checkpoint_seconds, found.restart_seconds) == (2, 6)
    assert found.interval_seconds == 8
    assert found.kept
    assert found.kept.mean == pytest.approx(20 / 32)
    assert found.expected == goodput(8.0, costs)
    assert found.best_interval_seconds == best_interval(costs)
    assert [one.rows for one in tables(comparison) if one.title == "Failures"]


def test_groups_that_were_not_ordered_to_fail_are_left_out() -> None:
    results = [failing(1)]
    assert compare(results, {1: make_facts(2)}).failures == ()


def test_what_was_not_recorded_is_not_guessed() -> None:
    facts = {1: make_facts(2, faults="kill:every=30s")}
    [found] = compare([failing(1)], facts).failures
    assert (found.interval_seconds, found.expected, found.best_interval_seconds) == (None,) * 3
    assert compare([replace(failing(1), goodput=None)], facts).failures == ()
