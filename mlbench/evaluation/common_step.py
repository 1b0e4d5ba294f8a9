"""The totals of a run that ended badly, at the last step that all ranks have done. Pure.

The last report of each rank is of another moment: a killed rank made it up to a second before its
death, and the others made theirs after they had waited for it.
"""

from collections.abc import Mapping

from mlbench.contract import names
from mlbench.contract.names import PHASES
from mlbench.evaluation.columns import Column, Columns, finite_by_rank
from mlbench.evaluation.inputs import value_at

ENDED_BADLY = ("FAILED", "STOPPED")
"""The states of runs whose ranks may have ended at different steps."""

_TOTALS = (names.TRAIN_SECONDS, names.SAMPLES, *(names.phase_metric(phase) for phase in PHASES))


def until_last_common_step(series: Columns) -> Columns:
    """Return the series with the totals of each rank up to the last step that all have done.

    The value at that step follows from the last totals before it: the clock advances by the time
    between the two steps, samples grow with the steps, and phases with the clock. No value exceeds
    the next recorded one. An evaluation between the two steps counts as training if its rank was
    killed before it recorded the next totals.

    The series stay as they are if a rank recorded no totals together with a step.
    """
    steps = finite_by_rank(series, names.STEP)
    recorded = {metric: finite_by_rank(series, metric) for metric in _TOTALS}
    ranks = recorded[names.TRAIN_SECONDS].keys()
    if not ranks or not ranks <= steps.keys():
        return series
    common = min(steps[rank].values[-1] for rank in ranks)
    ended = dict(series)
    for rank in ranks:
        totals = {metric: of[rank] for metric, of in recorded.items() if rank in of}
        columns = _until(common, steps[rank], totals)
        if not columns:
            return series
        ended |= {(metric, rank): column for metric, column in columns.items()}
    return ended


def _until(common: float, steps: Column, totals: Mapping[str, Column]) -> dict[str, Column]:
    """Return the steps and totals of a rank up to a step; nothing if no totals precede it."""
    clock = totals[names.TRAIN_SECONDS]
    reported = {time_us // 1000 for time_us in totals.get(names.SAMPLES, clock).times_us}
    lines = list(zip(steps.times_us, steps.values, strict=True))
    # A rank that closes after a wait records its last step again, with what the wait took.
    done_us = next((time_us for time_us, step in lines if step == common), None)
    known = [
        (time_us, step)
        for time_us, step in lines
        if 0 < step <= common
        and time_us // 1000 in reported
        and (done_us is None or time_us <= done_us)
    ]
    if not known:
        return {}
    base_us, base_step = known[-1]
    base_seconds = value_at(clock, base_us)
    # Without a line of this step, its time follows from the mean time of the steps before.
    elapsed_us = round(base_seconds * (common / base_step - 1) * 1e6)
    at_us = base_us + elapsed_us if done_us is None else done_us
    seconds = _capped(clock, base_us, base_seconds + (at_us - base_us) / 1e6)
    growth = {names.SAMPLES: common / base_step}
    by_clock = seconds / base_seconds if base_seconds else 1.0
    ended = {names.STEP: _ending(steps, at_us, at_us, common)}
    for metric, column in totals.items():
        value = value_at(column, base_us) * growth.get(metric, by_clock)
        if metric == names.TRAIN_SECONDS:
            value = seconds
        if column.times_us[0] // 1000 <= base_us // 1000:
            ended[metric] = _ending(column, base_us, at_us, _capped(column, base_us, value))
        else:  # the first time in this phase came after the last totals before the step
            ended[metric] = Column([at_us], [0.0])
    return ended


def _capped(column: Column, base_us: int, value: float) -> float:
    """Return a value, or the first one that was recorded after a time if that is less."""
    later = column.first_from((base_us // 1000 + 1) * 1000)
    return min(value, column.values[later]) if later < len(column.values) else value


def _ending(column: Column, until_us: int, at_us: int, value: float) -> Column:
    """Return a column up to the millisecond of a time, with a last value at another time."""
    count = column.first_from(until_us // 1000 * 1000)
    return Column([*column.times_us[:count], at_us], [*column.values[:count], value])
