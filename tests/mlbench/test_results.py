"""What a run reached, from its series: each figure from the values that it is defined by."""

from dataclasses import replace

import pytest

from mlbench.client import Goal, Point, Run, Series
from mlbench.results import evaluate, latest, latest_count, samples_per_second

_GOAL = Goal("acc", 97.0, lower_is_better=False)

_RUN = Run(
    id=1,
    name="a",
    state="FINISHED",
    reason="",
    benchmark="digits",
    args={},
    num_workers=2,
    num_cpus=None,
    attempt=1,
    created_at="2018-08-03T09:21:20.000000Z",
    started_at="2018-08-03T09:21:30.000000Z",
    finished_at=None,
    goal=_GOAL,
    delivery=None,
    ranks=(),
    fields={},
)


def at(second: int) -> str:
    return f"2018-08-03T09:22:{second:02}.000000Z"


def series(**values: dict[int, float | str]) -> Series:
    """Return series from values by second; ``acc_0`` stands for ``acc @ 0``."""
    return {
        f"{name[:-2]} @ {name[-1]}" if name[-2] == "_" and name[-1].isdecimal() else name: [
            Point(at(second), str(value)) for second, value in points.items()
        ]
        for name, points in values.items()
    }


def test_time_to_accuracy_is_the_training_time_of_the_same_moment() -> None:
    found = evaluate(
        _RUN,
        series(
            acc_0={10: 90, 20: 97, 30: 95, 40: 99},
            train_seconds_0={5: 1, 10: 4, 20: 8.5, 21: 9, 30: 12, 40: 16},
        ),
    )
    assert found.train_seconds_to_goal == 8.5
    assert found.wall_seconds_to_goal == 50.0, "22:20 comes 50 s after the start at 21:30"
    assert found.accuracy == 99


def test_a_goal_may_be_a_low_value() -> None:
    run = replace(_RUN, goal=Goal("loss", 0.1, lower_is_better=True))
    found = evaluate(
        run,
        series(loss_0={10: 0.5, 20: 0.1, 30: 0.05}, train_seconds_0={10: 4, 20: 8.5, 30: 12}),
    )
    assert (found.train_seconds_to_goal, found.accuracy) == (8.5, 0.05)


def test_a_goal_that_is_never_reached_has_no_time() -> None:
    found = evaluate(_RUN, series(acc_0={10: 90, 20: 96.9}, train_seconds_0={10: 4, 20: 8}))
    assert found.train_seconds_to_goal is None
    assert found.wall_seconds_to_goal is None
    assert found.accuracy == 96.9


def test_without_training_time_at_that_moment_there_is_wall_time_only() -> None:
    found = evaluate(_RUN, series(acc_0={20: 98}, train_seconds_0={19: 8}))
    assert found.train_seconds_to_goal is None
    assert found.wall_seconds_to_goal == 50.0


def test_a_run_that_has_not_started_has_no_wall_time() -> None:
    run = replace(_RUN, started_at=None)
    assert evaluate(run, series(acc_0={20: 98})).wall_seconds_to_goal is None


def test_a_run_without_a_goal_reaches_none() -> None:
    found = evaluate(replace(_RUN, goal=None), series(acc_0={20: 98}, train_seconds_0={20: 8}))
    assert (found.accuracy, found.train_seconds_to_goal) == (None, None)


def test_the_goal_is_read_at_the_first_rank_that_recorded_it() -> None:
    found = evaluate(_RUN, series(acc_1={20: 98}, acc_2={10: 99}, train_seconds_1={20: 8}))
    assert (found.accuracy, found.train_seconds_to_goal) == (98, 8)


def test_ranks_are_ordered_as_numbers() -> None:
    assert latest({f"acc @ {n}": [Point(at(1), str(n))] for n in (10, 9)}, "acc") == 9


def test_a_metric_may_be_called_as_a_ranked_one() -> None:
    run = replace(_RUN, goal=Goal("Prec @ 1", 97.0, lower_is_better=False))
    found = evaluate(run, {"Prec @ 1 @ 0": [Point(at(20), "98")]})
    assert found.accuracy == 98


def test_phases_are_averaged_over_the_ranks() -> None:
    found = evaluate(
        _RUN,
        series(
            forward_seconds_0={10: 1, 20: 4},
            forward_seconds_1={10: 1, 20: 2},
            evaluation_seconds_0={20: 6},
            evaluation_seconds_1={20: 8},
            train_seconds_0={20: 10},
            train_seconds_1={20: 12},
        ),
    )
    assert found.phase_seconds == {"forward": 3.0, "evaluation": 7.0}
    assert found.other_seconds == 8.0, "of 11 s, evaluation not among them"


def test_other_time_is_never_negative() -> None:
    found = evaluate(_RUN, series(forward_seconds_0={1: 5}, train_seconds_0={1: 4.9}))
    assert found.other_seconds == 0.0


def test_throughput_is_over_all_ranks_in_training_time() -> None:
    values = series(
        samples_0={10: 100, 20: 400},
        samples_1={10: 100, 20: 600},
        train_seconds_0={10: 1, 20: 9},
        train_seconds_1={10: 1, 20: 11},
    )
    assert samples_per_second(values) == 100.0
    assert evaluate(_RUN, values).samples_per_second == 100.0


@pytest.mark.parametrize(
    "values",
    [
        {},
        series(samples_0={1: 0}, train_seconds_0={1: 0}),
        series(samples_0={1: 5}),
        series(train_seconds_0={1: 5}),
    ],
)
def test_there_is_no_throughput_without_samples_and_time(values: Series) -> None:
    assert samples_per_second(values) is None


def test_epochs_count_from_one() -> None:
    assert evaluate(_RUN, series(epoch_0={1: 0, 2: 1, 3: 2})).epochs == 3


def test_nothing_recorded_is_no_result() -> None:
    found = evaluate(_RUN, {})
    assert (found.accuracy, found.epochs, found.samples_per_second) == (None, None, None)
    assert (found.phase_seconds, found.other_seconds) == ({}, 0.0)


def test_texts_among_numbers_are_passed_over() -> None:
    found = evaluate(
        _RUN,
        series(
            acc_0={10: "bad", 20: 98, 30: "worse"},
            train_seconds_0={10: "x", 20: 8, 30: "y"},
            samples_0={20: 80, 30: "many"},
            epoch_0={10: "first", 20: 1, 30: "last"},
            forward_seconds_0={20: 5, 30: "z"},
        ),
    )
    assert (found.accuracy, found.train_seconds_to_goal, found.epochs) == (98, 8, 2)
    assert (found.samples_per_second, found.phase_seconds) == (10.0, {"forward": 5.0})


def test_series_of_texts_alone_are_as_if_not_there() -> None:
    texts = {"acc", "train_seconds", "samples", "epoch", "forward_seconds"}
    assert evaluate(_RUN, {f"{name} @ 0": [Point(at(1), "x")] for name in texts}) == evaluate(
        _RUN, {}
    )


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_what_is_not_finite_counts_nothing(value: str) -> None:
    assert latest_count(series(epoch_0={1: value}), "epoch") is None
    assert evaluate(_RUN, series(epoch_0={1: value})).epochs is None


def test_a_diverged_metric_does_not_reach_the_goal() -> None:
    run = replace(_RUN, goal=Goal("loss", 0.1, lower_is_better=True))
    found = evaluate(run, series(loss_0={1: "NaN"}, train_seconds_0={1: 1}))
    assert found.train_seconds_to_goal is None
