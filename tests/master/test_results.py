"""A run's figures from its series: each from the values that it is defined by."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from master.results import Course, Occupation, Question, evaluate
from mlbench.results import Result, Target
from tests.master.columns import START, columns

_COURSE = Course(
    run_id=7,
    name="a",
    benchmark="digits",
    state="FINISHED",
    num_workers=2,
    division="closed",
    departures=("batch_size is 1",),
    started_at=START,
    ended_at=START + 60,
    occupations=(
        Occupation(1, START - 1, START + 59),
        Occupation(1, START - 1, START + 60),
    ),
    energy_joules=12.5,
)
_QUESTION = Question(Target("acc", 97.0), 7200.0, None)

Values = Mapping[float, float]


def judged(course: Course = _COURSE, question: Question = _QUESTION, **series: Values) -> Result:
    return evaluate(course, question, columns(**series))


def test_what_is_known_of_the_run_is_told() -> None:
    found = judged()
    assert (found.run_id, found.name, found.benchmark, found.state) == (
        7,
        "a",
        "digits",
        "FINISHED",
    )
    assert (found.num_workers, found.division) == (2, "closed")
    assert found.departures == ("batch_size is 1",)
    assert (found.target, found.wall_seconds) == (Target("acc", 97.0), 60.0)
    assert found.energy_joules == 12.5


def test_what_was_not_recorded_is_none() -> None:
    found = judged()
    assert found.time_to_accuracy is None
    assert found.accuracy_after_time is not None
    assert found.accuracy_after_time.value is None
    assert (found.last_value, found.best_value, found.curve) == (None, None, None)
    assert (found.epochs, found.samples, found.training_seconds) == (None, None, None)
    assert (found.samples_per_second, found.communication_share) == (None, None)
    assert found.phases == {}


def test_of_own_code_that_records_its_accuracy_alone_the_time_is_known() -> None:
    found = judged(acc={10: 90, 20: 98})
    assert found.time_to_accuracy is not None
    assert found.time_to_accuracy.wall_seconds == 20.0
    assert found.time_to_accuracy.training_seconds is None
    assert (found.last_value, found.training_seconds, found.phases) == (98.0, None, {})


def test_without_a_target_the_other_figures_stand() -> None:
    found = judged(question=Question(None, 7200.0, 0.5), acc_0={20: 98}, train_seconds_0={20: 8})
    assert (found.target, found.time_to_accuracy, found.accuracy_after_time) == (None, None, None)
    assert (found.last_value, found.best_value, found.curve) == (None, None, None)
    assert found.training_seconds == 8.0
    assert found.cost is not None
    assert (found.cost.total, found.cost.to_target) == (60.5, None)


def test_a_run_that_never_started_has_no_figures() -> None:
    found = judged(replace(_COURSE, state="STOPPED", started_at=None, occupations=()))
    assert (found.wall_seconds, found.cost, found.time_to_accuracy) == (None, None, None)
    assert found.accuracy_after_time is None


def test_training_time_is_the_mean_of_the_ranks_and_samples_their_sum() -> None:
    found = judged(
        train_seconds_0={10: 4, 50: 40},
        train_seconds_1={10: 5, 50: 44},
        samples_0={50: 2000},
        samples_1={50: 2200},
        epoch_0={0: 0, 40: 4},
        epoch_1={0: 0, 40: 3},
    )
    assert (found.training_seconds, found.samples, found.epochs) == (42.0, 4200.0, 5)
    assert found.samples_per_second == 100.0


def test_what_was_done_is_held_against_the_time_that_it_took_not_against_later_clocks() -> None:
    # Killed after its third evaluation: the totals since the epoch began were lost.
    found = judged(
        acc_0={10: 50, 20: 60, 30: 70},
        train_seconds_0={0: 0, 10: 9, 10.001: 9, 20: 18, 20.002: 18, 30: 27},
        samples_0={0: 0, 10.001: 900, 20.002: 1800},
        communication_seconds_0={10.001: 3, 20.002: 6},
    )
    assert (found.training_seconds, found.samples) == (27.0, 1800.0)
    assert found.samples_per_second == 100.0
    assert found.communication_share == pytest.approx(1 / 3)
    assert found.phases == {"communication": 6.0, "other": 12.0}


def test_totals_without_a_clock_of_their_own_take_the_one_there_is() -> None:
    assert judged(samples={50: 800}, train_seconds_0={50: 40}).samples_per_second == 20.0
    # The next clock never flatters; the last one is all there is.
    later = judged(samples_0={50: 800}, train_seconds_0={40: 30, 51: 40})
    assert later.samples_per_second == 20.0
    assert judged(samples_0={50: 800}, train_seconds_0={40: 40}).samples_per_second == 20.0


def test_a_sum_that_is_too_large_for_a_float_is_no_figure() -> None:
    found = judged(train_seconds_0={50: 1.6e308}, train_seconds_1={50: 1.6e308}, samples_0={50: 9})
    assert found.to_fields()["training_seconds"] is None


def test_a_run_of_no_samples_has_a_throughput_of_nought() -> None:
    found = judged(samples_0={50: 0}, train_seconds_0={50: 40})
    assert (found.samples, found.samples_per_second) == (0.0, 0.0)
    assert judged(samples_0={50: 9}, train_seconds_0={50: 0}).samples_per_second is None


def test_totals_that_are_no_finite_number_are_passed_over() -> None:
    found = judged(
        train_seconds_0={40: 20, 50: math.nan},
        samples_0={40: 10, 50: math.inf},
        forward_seconds_0={50: math.nan},
        epoch_0={50: 1e300},
    )
    assert (found.training_seconds, found.samples, found.epochs) == (20.0, 10.0, None)
    assert found.phases == {}


def test_phases_are_the_mean_of_the_ranks_and_other_is_the_rest_of_the_training_time() -> None:
    found = judged(
        train_seconds_0={50: 40},
        train_seconds_1={50: 44},
        forward_seconds_0={10: 1, 50: 12},
        forward_seconds_1={50: 14},
        communication_seconds_0={50: 10},
        communication_seconds_1={50: 11},
        # Rank 1 evaluates nothing: that is no time, and not a time that is unknown.
        evaluation_seconds_0={50: 6},
    )
    assert found.phases == {
        "forward": 13.0,
        "communication": 10.5,
        "evaluation": 3.0,
        "other": 42.0 - 13.0 - 10.5,
    }
    assert found.communication_share == 0.25


def test_other_is_never_less_than_none_and_unknown_without_a_training_time() -> None:
    assert judged(train_seconds_0={50: 4}, forward_seconds_0={50: 4.1}).phases["other"] == 0.0
    alone = judged(forward_seconds_0={50: 4.0}, communication_seconds_0={50: 1.0})
    assert alone.phases == {"forward": 4.0, "communication": 1.0}
    assert alone.communication_share is None


def test_no_communication_recorded_is_no_share_of_nought() -> None:
    found = judged(train_seconds_0={50: 40}, forward_seconds_0={50: 30})
    assert found.communication_share is None


def test_the_cost_is_that_of_every_worker_of_every_attempt() -> None:
    course = replace(
        _COURSE,
        occupations=(
            Occupation(1, START - 2, START + 20),
            Occupation(1, START - 1, START + 18),
            Occupation(2, START + 21, START + 60),
            Occupation(2, START + 22, START + 58),
        ),
    )
    found = judged(course, Question(Target("acc", 97.0), 7200.0, 0.25), acc_0={30: 98})
    assert found.cost is not None
    assert found.cost.worker_seconds == 22 + 19 + 39 + 36
    assert found.cost.worker_seconds_to_target == 22 + 19 + 9 + 8
    assert found.cost.price == 0.25
    assert found.cost.total == 29.0
    assert found.cost.to_target == 14.5


def test_a_target_reached_before_a_restart_costs_nothing_of_what_follows() -> None:
    course = replace(
        _COURSE,
        occupations=(Occupation(1, START, START + 20), Occupation(2, START + 21, START + 60)),
    )
    found = judged(course, acc_0={15: 98}, train_seconds_0={14: 9, 30: 1})
    assert found.cost is not None
    assert found.cost.worker_seconds_to_target == 15.0
    assert found.time_to_accuracy is not None
    assert found.time_to_accuracy.training_seconds is None, "the clock began anew at 21 s"


@pytest.mark.parametrize(("after", "value"), [(7200.0, 98.0), (5.0, 90.0)])
def test_accuracy_after_time_takes_the_time_asked_for(after: float, value: float) -> None:
    found = judged(
        question=Question(Target("acc", 97.0), after, None),
        acc_0={10: 90, 20: 98},
        train_seconds_0={10: 4, 20: 8},
    )
    assert found.accuracy_after_time is not None
    assert (found.accuracy_after_time.limit_seconds, found.accuracy_after_time.value) == (
        after,
        value,
    )
