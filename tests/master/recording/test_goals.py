"""A run's goal, and the moment in which it was reached first."""

import json
from typing import Any

import pytest

from master.models import Run, find_run, pod_owner, run_owner
from master.recording.delivery import Delivery
from master.recording.goals import note_goals
from master.recording.samples import Sample
from mlbench.records import Goal
from tests.master.making import post, record

pytestmark = pytest.mark.both_databases

_GOAL = Goal("val", 97.0, lower_is_better=False)


def at(second: float, value: float | str, metric: str = "val", rank: str = "0") -> Sample:
    return Sample(metric, rank, round(second * 1e6), value)


def note(run: Run, *samples: Sample, goals: tuple[Goal, ...] = ()) -> None:
    note_goals(run, goals, samples)


def reached(run: Run) -> tuple[float | None, float | None]:
    found = Run.get_by_id(run.id)
    return found.goal_reached_at, found.goal_train_seconds


def test_the_first_moment_counts_with_its_training_time(run: Run) -> None:
    note(run, at(1, 90.0), goals=(_GOAL,))
    assert reached(run) == (None, None)
    note(run, at(2, 5.0, "train_seconds"), at(2, 97.0), at(3, 6.0, "train_seconds"), at(3, 99.0))
    assert reached(run) == (2.0, 5.0)
    note(run, at(4, 98.0))
    assert reached(run) == (2.0, 5.0)


def test_ranks_may_be_delivered_in_any_order_and_twice(run: Run) -> None:
    one = [at(5.5, 4.0, "train_seconds", "1"), at(5.5, 98.0, rank="1")]
    other = [at(5.25, 3.0, "train_seconds"), at(5.25, 98.0), at(5.25, 9.0, "train_seconds", "1")]
    for batch in (one, other, one):
        note(run, *batch, goals=(_GOAL,))
    assert reached(run) == (5.25, 3.0)


def test_a_loss_is_to_fall(run: Run) -> None:
    goal = Goal("val", 0.5, lower_is_better=True)
    note(run, at(1, 0.6), at(2, 0.5), goals=(goal,))
    assert reached(run) == (2.0, None)


@pytest.mark.parametrize("value", [float("nan"), "99", 96.9])
def test_what_does_not_reach_it(run: Run, value: float | str) -> None:
    note(run, at(1, value), at(1, 99.0, "other"), goals=(_GOAL,))
    assert reached(run) == (None, None)


def test_another_goal_begins_anew(run: Run) -> None:
    note(run, at(1, 97.5), goals=(_GOAL,))
    note(run, at(2, 97.5), goals=(Goal("val", 98.0, lower_is_better=False),))
    assert reached(run) == (None, None)
    note(run, at(3, 98.0))
    assert reached(run) == (3.0, None)


def test_pods_and_deleted_runs_have_no_goal(run: Run, delivery: Delivery) -> None:
    line = json.dumps({"time": 1763683200.5, "metrics": {"val": 99.0}}).encode() + b"\n"
    record(run, line)
    post(pod_owner("p"), [at(1, 99.0)])
    run.delete_instance()
    while delivery.deliver_waiting():
        pass
    assert (find_run(run_owner(run.id)), find_run(pod_owner("p"))) == (None, None)
    assert Run.select().count() == 0


def test_delivery_notes_it(run: Run, delivery: Delivery) -> None:
    goal: dict[str, Any] = {"metric": "val", "value": 97.0}
    lines = [
        {"time": 1763683200.5, "goal": goal},
        {"time": 1763683200.5, "metrics": {"train_seconds": 12.5, "val": 97.25}},
    ]
    record(run, b"".join(json.dumps(one).encode() + b"\n" for one in lines))
    delivery.deliver_waiting()
    assert reached(run) == (1763683200.5, 12.5)
