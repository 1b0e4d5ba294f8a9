"""Comparisons for reports, made up: as many groups and runs as a test asks for."""

from dataclasses import replace
from statistics import mean, median, stdev
from typing import Literal

from mlbench.records import Goal
from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Curve,
    Difference,
    Group,
    Result,
    Summary,
    TimeToAccuracy,
    Value,
)

METRIC = "val_global_Prec@1"
GOAL = Goal(METRIC, 97.0)
_EPOCHS = 12


def make_result(run_id: int, workers: int = 1, *, repeat: int = 1) -> Result:
    """Return a run that reached its goal: the more workers, the sooner."""
    epoch_seconds = 0.8 / workers**0.8 * (1 + 0.03 * repeat)
    times = tuple(epoch_seconds * (epoch + 1) for epoch in range(_EPOCHS))
    values = tuple(99.0 - 80.0 * 0.62**epoch for epoch in range(_EPOCHS))
    reached = next(i for i, value in enumerate(values) if value >= GOAL.value)
    training = times[-1]
    return Result(
        run_id=run_id,
        name=f"digits-w{workers}-r{repeat}",
        benchmark="digits",
        state="FINISHED",
        num_workers=workers,
        division="closed",
        departures=(),
        target=GOAL,
        time_to_accuracy=TimeToAccuracy(times[reached], times[reached] * 1.1 + 4.0),
        accuracy_after_time=AccuracyAfterTime(7200.0, values[-1], training, "training"),
        last_value=values[-1],
        best_value=max(values),
        epochs=_EPOCHS,
        samples=1437.0 * _EPOCHS,
        training_seconds=training,
        wall_seconds=training * 1.1 + 4.0,
        samples_per_second=1437.0 * _EPOCHS / training,
        phases={
            "data": 0.02 * training,
            "forward": 0.3 * training,
            "backward": 0.4 * training,
            "communication": 0.05 * workers * training,
            "optimizer": 0.03 * training,
            "metrics": 0.01 * training,
            "evaluation": 0.1 * training,
            "other": 0.04 * training,
        },
        communication_share=0.05 * workers,
        cost=Cost(workers * (training + 5.0), workers * times[reached], None, None, None),
        energy_joules=None,
        curve=Curve(tuple(time * 1.1 + 4.0 for time in times), times, values),
    )


def make_unreached(run_id: int, workers: int = 1, *, repeat: int = 1) -> Result:
    """Return a run that stayed below its goal."""
    result = make_result(run_id, workers, repeat=repeat)
    assert result.curve is not None
    values = tuple(value * 0.9 if value else None for value in result.curve.values)
    return replace(
        result,
        time_to_accuracy=None,
        last_value=values[-1],
        best_value=values[-1],
        curve=replace(result.curve, values=values),
    )


def make_aimless(run_id: int, workers: int = 1, *, repeat: int = 1) -> Result:
    """Return a run of one's own code that has no goal."""
    return replace(
        make_result(run_id, workers, repeat=repeat),
        benchmark="",
        division="open",
        target=None,
        time_to_accuracy=None,
        accuracy_after_time=None,
        last_value=None,
        best_value=None,
        curve=None,
    )


def make_comparison(results: list[Result]) -> Comparison:
    """Return the comparison of runs that differ in their workers alone."""
    groups: list[Group] = []
    for workers in sorted({result.num_workers for result in results}):
        members = [result for result in results if result.num_workers == workers]
        groups.append(_make_group(members, groups[0] if groups else None))
    return Comparison("yes", (), tuple(groups), tuple(results))


def make_matrix(workers: tuple[int, ...] = (1, 2, 4), repeats: int = 5) -> Comparison:
    """Return what ``mlbench bench`` ends with."""
    cells = [(count, repeat) for repeat in range(1, repeats + 1) for count in workers]
    return make_comparison(
        [make_result(i, count, repeat=repeat) for i, (count, repeat) in enumerate(cells, 1)]
    )


def make_difference(name: str, breaks: Literal["yes", "no", "unknown"], text: str) -> Difference:
    """Return a difference between runs 1 and 2."""
    return Difference(name, breaks, (Value("a", (1,)), Value("b", (2,))), text)


def make_summary(values: list[float]) -> Summary | None:
    """Return the summary of the values that there are; None where there are none."""
    if not values:
        return None
    kept = sorted(values)[1:-1] if len(values) > 2 else values
    return Summary(
        count=len(values),
        mean=mean(kept),
        left_out=len(values) - len(kept),
        median=median(values),
        minimum=min(values),
        maximum=max(values),
        standard_deviation=stdev(values) if len(values) > 1 else None,
    )


def _make_group(members: list[Result], first: Group | None) -> Group:
    workers = members[0].num_workers
    reached = [one.time_to_accuracy for one in members if one.time_to_accuracy]
    training = make_summary([t.training_seconds for t in reached if t.training_seconds])
    if training and len(reached) < len(members):
        training = replace(training, mean=None)
    throughput = make_summary([r.samples_per_second for r in members if r.samples_per_second])
    group = Group(
        label=f"{workers} worker" + ("s" if workers > 1 else ""),
        num_workers=workers,
        run_ids=tuple(one.run_id for one in members),
        reached=len(reached),
        training_seconds_to_accuracy=training,
        wall_seconds_to_accuracy=make_summary([t.wall_seconds for t in reached]),
        accuracy_after_time=make_summary(
            [
                r.accuracy_after_time.value
                for r in members
                if r.accuracy_after_time and r.accuracy_after_time.value
            ]
        ),
        samples_per_second=throughput,
        communication_share=make_summary(
            [r.communication_share for r in members if r.communication_share is not None]
        ),
        worker_seconds=make_summary([r.cost.worker_seconds for r in members if r.cost]),
        energy_joules=make_summary([r.energy_joules for r in members if r.energy_joules]),
        phases={name: mean(r.phases.get(name, 0.0) for r in members) for name in members[0].phases},
        speedup=None,
        efficiency=None,
        throughput_speedup=None,
        throughput_efficiency=None,
    )
    base = first or group
    speedup = _ratio(base.training_seconds_to_accuracy, group.training_seconds_to_accuracy)
    faster = _ratio(group.samples_per_second, base.samples_per_second)
    more = workers / base.num_workers
    return replace(
        group,
        speedup=speedup,
        efficiency=None if speedup is None else speedup / more,
        throughput_speedup=faster,
        throughput_efficiency=None if faster is None else faster / more,
    )


def _ratio(over: Summary | None, under: Summary | None) -> float | None:
    if over is None or under is None or over.mean is None or under.mean is None:
        return None
    return over.mean / under.mean
