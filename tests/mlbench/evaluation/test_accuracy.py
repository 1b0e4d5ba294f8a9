"""Time to target and accuracy after a time limit, compared with values calculated by hand."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from mlbench.contract.records import Target
from mlbench.contract.results import AccuracyAfterTime, TimeToTarget
from mlbench.evaluation.inputs import by_rank
from mlbench.evaluation.result import Accuracy
from mlbench.evaluation.timeline import ClockCorrection
from tests.mlbench.evaluation.making import at_us, columns
from tests.support.known import known

_TARGET = Target("acc", 97.0)
_LOSS = Target("loss", 0.1, lower_is_better=True)

Values = Mapping[float, float]


def accuracy(
    target: Target = _TARGET,
    attempts: tuple[float, ...] = (0.0,),
    anew: tuple[float, ...] = (),
    **series: Values,
) -> Accuracy:
    table = columns(**series)
    begun_us = [at_us(seconds) for seconds in (*attempts, *anew)]
    clocks = ClockCorrection(begun_us[: len(attempts)], begun_us, at_us(1e6), {})
    by_metric = (by_rank(table, target.metric), by_rank(table, "train_seconds"))
    return Accuracy(target, *by_metric, at_us(0), clocks)


def time_to(judged: Accuracy) -> TimeToTarget | None:
    reached = judged.reached()
    return judged.time_to(reached) if reached else None


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        # The training time at the same moment.
        (
            {"acc_0": {10: 90, 20: 97, 30: 95, 40: 99}, "train_seconds_0": {10: 4, 20: 8.5, 21: 9}},
            (8.5, 20.0),
        ),
        # The rank that is first counts, with its own clock.
        (
            {"acc_0": {20: 97.5, 30: 98}, "train_seconds_0": {19: 7.0, 20: 8.0}}
            | {"acc_1": {19: 97.1, 29: 96}, "train_seconds_1": {19: 7.5, 29: 12}},
            (7.5, 19.0),
        ),
        # Without a clock value at that moment, the next one counts.
        ({"acc_0": {20: 98}, "train_seconds_0": {19: 8, 25: 13, 30: 17}}, (13.0, 20.0)),
        # Samples within a millisecond belong to one moment, and its last clock value counts.
        # Prometheus stores the first of them, cut to the millisecond; the database stores the rest.
        (
            {"acc_0": {20.0007: 98}, "train_seconds_0": {20.000: 8.5, 20.0004: 8.6, 25: 13}},
            (8.6, 20.0007),
        ),
        # Series without a rank belong to all ranks.
        ({"acc": {20: 98}, "train_seconds": {20: 8}}, (8.0, 20.0)),
        ({"acc": {20: 98}, "train_seconds_1": {20: 8}}, (8.0, 20.0)),
        ({"acc_0": {20: 98}, "train_seconds": {20: 8}}, (8.0, 20.0)),
        ({"acc_0": {20: 98}}, (None, 20.0)),
    ],
)
def test_time_to_accuracy(series: Any, expected: tuple[float | None, float]) -> None:
    assert time_to(accuracy(**series)) == TimeToTarget(*expected)


def test_a_target_may_be_a_low_value() -> None:
    losses = {10.0: 0.5, 20.0: 0.1, 30.0: 0.05, 40.0: 0.2}
    judged = accuracy(_LOSS, loss_0=losses, train_seconds_0={20: 8.5, 30: 12})
    assert time_to(judged) == TimeToTarget(8.5, 20.0)
    assert (judged.last(), judged.best()) == (0.2, 0.05)
    # NaN does not reach a target and is not the best value.
    diverged = accuracy(_LOSS, loss_0={10: math.nan, 20: 0.3, 30: math.nan})
    assert time_to(diverged) is None
    assert diverged.best() == 0.3
    assert math.isnan(diverged.last() or 0.0)


def test_a_target_is_not_reached_without_samples() -> None:
    judged = accuracy()
    assert time_to(judged) is None
    assert (judged.last(), judged.best(), judged.curve(None)) == (None, None, None)
    assert judged.after(60.0) == AccuracyAfterTime(60.0, None, None, "wall")


@pytest.mark.parametrize(
    "begun", [{"attempts": (0, 22)}, {"anew": (22,)}], ids=["attempt", "torchrun"]
)
def test_the_restarted_clock_of_the_next_process_does_not_count(begun: Any) -> None:
    judged = accuracy(**begun, acc_0={20: 98}, train_seconds_0={19: 8, 25: 0.5, 30: 4})
    assert time_to(judged) == TimeToTarget(None, 20.0)
    within = accuracy(**begun, acc_0={23: 98}, train_seconds_0={19: 8, 25: 0.5})
    assert time_to(within) == TimeToTarget(0.5, 23.0)


def test_accuracy_after_time_is_the_last_value_within_the_limit() -> None:
    clock = {10.0: 4, 20.0: 8, 40.0: 12, 50.0: 16}
    judged = accuracy(acc_0={10: 90, 20: 94, 40: 92, 50: 97}, train_seconds_0=clock)
    assert judged.after(12.0) == AccuracyAfterTime(12.0, 92.0, 12.0, "training")
    assert judged.after(11.9) == AccuracyAfterTime(11.9, 94.0, 8.0, "training")
    assert judged.after(7200.0) == AccuracyAfterTime(7200.0, 97.0, 16.0, "training")
    assert judged.after(3.0) == AccuracyAfterTime(3.0, None, None, "training")
    # Without a clock, the limit applies to wall time.
    judged = accuracy(acc_0={10: 90, 20: 94}, train_seconds_0={10: 4})
    assert judged.after(20.0) == AccuracyAfterTime(20.0, 94.0, 20.0, "wall")
    assert judged.after(19.0) == AccuracyAfterTime(19.0, 90.0, 4.0, "training")
    # All ranks count.
    clocks: Any = {"train_seconds_0": {10: 5, 30: 15}, "train_seconds_1": {11: 6, 29: 14}}
    judged = accuracy(acc_0={10: 90, 30: 96}, acc_1={11: 91, 29: 95}, **clocks)
    assert judged.after(14.5).value == 95.0
    assert judged.after(13.0).value == 91.0


def test_a_curve_has_every_value_of_one_rank() -> None:
    judged = accuracy(acc_0={10: 90, 20: 95}, acc_1={15: 97}, train_seconds_1={15: 6})
    curve = known(judged.curve(judged.reached()))
    assert (curve.wall_seconds, curve.training_seconds, curve.values) == ((15.0,), (6.0,), (97.0,))
    first = known(judged.curve(None))
    assert (first.wall_seconds, first.values) == ((10.0, 20.0), (90.0, 95.0))
    assert first.training_seconds == (None, None)


def test_a_long_curve_is_downsampled() -> None:
    curve = known(accuracy(acc_0={i: i for i in range(10_000)}).curve(None))
    assert len(curve.values) == len(curve.wall_seconds) == len(curve.training_seconds) == 300
    assert (curve.values[0], curve.values[-1]) == (0.0, 9999.0)
    steps = {b - a for a, b in zip(curve.wall_seconds, curve.wall_seconds[1:], strict=False)}
    assert steps <= {33.0, 34.0}


def test_ranks_are_sorted_numerically() -> None:
    found = columns(acc_10={1: 1}, acc_2={1: 1}, acc={1: 1}, acc_0={1: 1}, other_1={1: 1})
    assert list(by_rank(found, "acc")) == ["", "0", "2", "10"]
    assert list(by_rank(found, "acc @ 2")) == ["2"]
    assert by_rank(found, "absent") == {}
