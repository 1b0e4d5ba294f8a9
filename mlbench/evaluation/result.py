"""Result of a run, computed from its stored series (terms: ``mlbench.contract.results``).

The state tells how the processes ended; the outcome tells what the run achieved.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import isnan
from statistics import fmean
from typing import Literal, NamedTuple

from mlbench.contract import names
from mlbench.contract.diagnosis import Diagnosis
from mlbench.contract.names import PHASES, Phase
from mlbench.contract.records import Machine, Target
from mlbench.contract.reported_settings import reaches
from mlbench.contract.results import (
    DEFAULT_AFTER_SECONDS,
    AccuracyAfterTime,
    Breakdown,
    CheckpointCost,
    Cost,
    Curve,
    Result,
    TimeToTarget,
)
from mlbench.evaluation import inputs
from mlbench.evaluation.findings import findings_of
from mlbench.evaluation.goodput import breakdown_of, goodput_of
from mlbench.evaluation.inputs import (
    ENDED_BADLY,
    OWN_CRITERIA,
    ByRank,
    Columns,
    Criteria,
    RankRow,
    Read,
    RunRow,
    by_rank,
    finite_by_rank,
    has_steps_before_clock,
    last_recorded_us,
    last_totals_us,
    profiled_among,
    rank_results,
    until_last_common_step,
    value_at,
    with_other,
)
from mlbench.evaluation.official_rules import division, rule_violations
from mlbench.evaluation.outcome import hang_of, not_finite_loss, outcome_of, useless_from
from mlbench.evaluation.statistics import mean_or_none, ratio
from mlbench.evaluation.stragglers import interferences, stragglers_of
from mlbench.evaluation.timeline import (
    ClockCorrection,
    Lineage,
    clock_correction_of,
    lineage_of,
    stopped_spans,
)

# --- Accuracy ---


class Evaluation(NamedTuple):
    """A value of the target's metric."""

    at_us: int
    """Time of the value, in the run's time."""
    time_us: int
    """Time of the value by the clock of its rank."""
    rank: str
    value: float


@dataclass(frozen=True)
class Accuracy:
    """Values of a target's metric, and the training time at which they were recorded."""

    target: Target
    values: ByRank
    clocks: ByRank
    """Training seconds by rank, all finite."""
    started_us: int
    dates: ClockCorrection
    until: float = math.inf
    """Unix seconds from which values do not count, because the model is NaN."""

    def reached(self) -> Evaluation | None:
        """Return the earliest value of any rank that is as good as the target."""
        target, lower = self.target.value, self.target.lower_is_better
        firsts: list[Evaluation] = []
        for rank, column in self.values.items():
            at_us, order = self._in_order(rank)
            matches = (i for i in order if reaches(column.values[i], target, lower_is_better=lower))
            firsts += [self._evaluation(rank, at_us, i) for i in islice(matches, 1)]
        first = min(firsts, default=None)
        return first if first and first.time_us < self.until * 1e6 else None

    def time_to(self, reached: Evaluation) -> TimeToTarget:
        """Return the training time and the wall time of a value."""
        return TimeToTarget(
            self.training_seconds(reached.rank, reached.time_us), self._wall(reached.at_us)
        )

    def last(self) -> float | None:
        """Return the last value of any rank."""
        lasts = [next(self._backwards(rank)) for rank in self.values]
        return max(lasts, key=lambda evaluation: evaluation.at_us).value if lasts else None

    def best(self) -> float | None:
        """Return the best value of any rank, without NaN."""
        numbers = (v for column in self.values.values() for v in column.values if not isnan(v))
        best = min if self.target.lower_is_better else max
        return best(numbers, default=None)

    def after(self, limit_seconds: float) -> AccuracyAfterTime:
        """Return the last value of any rank within a time."""
        lasts: list[Evaluation] = []
        for rank in self.values:
            evaluations = self._backwards(rank)
            lasts += islice((e for e in evaluations if self._seconds(e)[0] <= limit_seconds), 1)
        last = max(lasts, key=lambda evaluation: evaluation.at_us, default=None)
        if last is None:
            clock: Literal["training", "wall"] = "training" if self.clocks else "wall"
            return AccuracyAfterTime(limit_seconds, None, None, clock)
        return AccuracyAfterTime(limit_seconds, last.value, *self._seconds(last))

    def curve(self, reached: Evaluation | None) -> Curve | None:
        """Return the values of the rank that reached the target, or of the first, thinned out."""
        if not self.values:
            return None
        rank = reached.rank if reached else next(iter(self.values))
        at_us, order = self._in_order(rank)
        if len(order) > 300:  # About the width of a plot in pixels.
            order = [order[i * (len(order) - 1) // 299] for i in range(300)]
        chosen = [self._evaluation(rank, at_us, i) for i in order]
        return Curve(
            tuple(self._wall(evaluation.at_us) for evaluation in chosen),
            tuple(self.training_seconds(rank, evaluation.time_us) for evaluation in chosen),
            tuple(evaluation.value for evaluation in chosen),
        )

    def training_seconds(self, rank: str, time_us: int) -> float | None:
        """Return the training time that a rank's process recorded in a millisecond, or next.

        The next one is later, so it never flatters. The clock of another process may restart at 0.
        A value without a rank has the first clock.
        """
        clock = self.clocks.get(rank) or self.clocks.get("")
        if clock is None and not rank:
            clock = next(iter(self.clocks.values()), None)
        if clock is None:
            return None
        this_ms = time_us // 1000 * 1000
        later = clock.first_from(this_ms + 1000)
        if later > clock.first_from(this_ms):
            return clock.values[later - 1]
        begun_us = [*self.dates.begun_us, math.inf]
        next_begin_us = begun_us[bisect_right(self.dates.begun_us, time_us)]
        if later < len(clock.times_us) and clock.times_us[later] < next_begin_us:
            return clock.values[later]
        return None

    def _wall(self, at_us: int) -> float:
        return (at_us - self.started_us) / 1e6

    def _seconds(self, evaluation: Evaluation) -> tuple[float, Literal["training", "wall"]]:
        """Return a time in training seconds; where these were not recorded, since the start."""
        training = self.training_seconds(evaluation.rank, evaluation.time_us)
        if training is None:
            return self._wall(evaluation.at_us), "wall"
        return training, "training"

    def _backwards(self, rank: str) -> Iterator[Evaluation]:
        """Yield a rank's values from the last one to the first."""
        at_us, order = self._in_order(rank)
        for i in reversed(order):
            yield self._evaluation(rank, at_us, i)

    def _in_order(self, rank: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return the times of a rank's values in the run's time, and the positions by time."""
        times_us = self.values[rank].times_us
        at_us = self.dates.place(rank, times_us)
        positions = range(len(at_us))
        return at_us, positions if at_us is times_us else sorted(positions, key=at_us.__getitem__)

    def _evaluation(self, rank: str, at_us: Sequence[int], i: int) -> Evaluation:
        column = self.values[rank]
        return Evaluation(at_us[i], column.times_us[i], rank, column.values[i])


# --- Result ---


LINE_METRICS = (names.CHECKPOINT_STEP, names.CHECKPOINT_BYTES, names.RESTORED_STEP)
TOTALS = (
    *(names.TRAIN_SECONDS, names.SAMPLES, names.EPOCH, names.BYTES_PER_STEP),
    *(names.NETWORK_SENT, names.NETWORK_RECEIVED),
    *(names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *LINE_METRICS,
    *(names.phase_metric(phase) for phase in PHASES),
    *(names.hidden_metric(phase) for phase in PHASES),
)
"""Metrics that a result is computed from, in addition to the target's."""


@dataclass(frozen=True)
class RunContext:
    """A run with its ranks, hang diagnoses and criteria: everything but its series."""

    run: RunRow
    ranks: Sequence[RankRow]
    """Ranks of all attempts; only the latest have their machines and assignments."""
    ended_at: float
    """End of the run in Unix seconds; the present for an active run."""
    criteria: Criteria = OWN_CRITERIA
    diagnoses: Sequence[Diagnosis] = ()
    """Hang diagnoses of all attempts, the latest last."""

    @property
    def target(self) -> Target | None:
        """Target that the run is evaluated by; None without one."""
        return self.criteria.target or self.run.target

    @cached_property
    def latest(self) -> list[RankRow]:
        """Ranks of the latest attempt, in order."""
        latest = (rank for rank in self.ranks if rank.attempt == self.run.attempt)
        return sorted(latest, key=lambda rank: rank.rank)

    @property
    def machines(self) -> list[Machine]:
        """Known machines of the latest attempt."""
        return [rank.machine for rank in self.latest if rank.machine]

    @cached_property
    def dates(self) -> ClockCorrection:
        """Begins of the attempts, and errors of the ranks' clocks."""
        return clock_correction_of(
            self.ranks, self.run.started_at or self.run.created_at, self.ended_at
        )

    def accuracy(self, series: Columns, until: float | None = None) -> Accuracy | None:
        """Return the values of the target's metric; None without a target, or before the start.

        ``until`` is the time from which values do not count, in Unix seconds. By default it is
        the time of the first NaN that no number follows.
        """
        if self.target is None or self.run.started_at is None:
            return None
        if until is None:
            loss = not_finite_loss(self.run, self.target, series)
            until = loss.since if loss else math.inf
        values = by_rank(series, self.target.metric)
        clocks = finite_by_rank(series, names.TRAIN_SECONDS)
        started_us = round(self.run.started_at * 1e6)
        return Accuracy(self.target, values, clocks, started_us, self.dates, until)

    def line(self, series: Columns) -> Lineage:
        """Return the lineage of the run's final model."""
        return lineage_of(series, self.dates.begun_us)

    def worker_seconds(self, until: float) -> float:
        """Return the worker-seconds of the run up to a time, which is in Unix seconds.

        The run holds a worker from its turn in the queue to its end, also between two attempts.
        """
        begun: dict[int, float] = {}
        for rank in self.ranks:
            assigned_at = self.run.room_at or rank.assigned_at
            begun[rank.rank] = min(assigned_at, begun.get(rank.rank, assigned_at))
        return sum(max(0.0, min(self.ended_at, until) - at) for at in begun.values())

    def cost(self, reached: Evaluation | None) -> Cost | None:
        """Return the cost of the run, and until it reached the target; None before the start."""
        if self.run.started_at is None:
            return None
        total, price = self.worker_seconds(self.ended_at), self.criteria.price
        to_target = None if reached is None else self.worker_seconds(reached.at_us / 1e6)
        if price is None:
            return Cost(total, to_target, None, None, None)
        to_target_price = None if to_target is None else to_target * price
        return Cost(total, to_target, price, total * price, to_target_price)


def read_series(context: RunContext, read: Read) -> Columns:
    """Read the series that the result of a run is computed from, from its start on."""
    run, target = context.run, context.target
    if run.started_at is None:
        return {}
    metrics = {*TOTALS, *inputs.NAMES, *([target.metric] if target else ())}
    # Clients may post samples from before the start, which do not count for this run. Those of a
    # rank with a wrong clock do.
    early = max((rank.dated_before - rank.clock_ahead for rank in context.ranks), default=0.0)
    since_ms = int((run.started_at - max(0.0, early)) * 1000)
    columns = inputs.add_totals(read(sorted(metrics), since_ms * 1000))
    # All steps are needed to find the discarded ones, the last one of all ranks, and the ones
    # before the clock.
    clocks = finite_by_rank(columns, names.TRAIN_SECONDS).values()
    is_clock_late = any(map(has_steps_before_clock, clocks))
    if len(context.dates.begun_us) > 1 or run.state in ENDED_BADLY or is_clock_late:
        return {**columns, **read((names.STEP,), since_ms * 1000)}
    # Steps are many, so only those from the last totals on are read.
    last_us = min(last_totals_us(columns).values(), default=None)
    if last_us is None:
        return columns
    return {**columns, **read((names.STEP,), last_us // 1000 * 1000)}


def breakdown(context: RunContext, recorded: Columns, bins: int) -> Breakdown | None:
    """Return the time breakdown of a run over time; None before its start."""
    run, series = context.run, context.line(recorded).kept(recorded)
    loss = not_finite_loss(run, context.target, series)
    useless = useless_from(loss, hang_of(run, series, context.diagnoses))
    return breakdown_of(run, context.ranks, context.ended_at, recorded, bins, useless)


def evaluate(context: RunContext, recorded: Columns) -> Result:
    """Compute the result of a run from its series, which begin with its start.

    It uses only values in the lineage of the final model. Goodput also counts discarded steps.
    """
    lineage = context.line(recorded)
    series = lineage.kept(recorded)
    run, started_at = context.run, context.run.started_at
    loss = not_finite_loss(run, context.target, series)
    hang = hang_of(run, series, context.diagnoses)
    accuracy = context.accuracy(series, until=loss.since if loss else math.inf)
    reached, time_to_target = accuracy.reached() if accuracy else None, None
    if accuracy and reached and not lineage.unclear:
        epochs = _epochs(series, reached)
        time_to_target = replace(accuracy.time_to(reached), epochs=epochs)
    after_seconds = context.criteria.after_seconds or run.deadline_seconds or DEFAULT_AFTER_SECONDS
    totals = until_last_common_step(series) if run.state in ENDED_BADLY else series
    clocks = finite_by_rank(totals, names.TRAIN_SECONDS)
    done = finite_by_rank(totals, names.SAMPLES)
    # A sum over only some ranks would look like a sum over all.
    samples = _last_values(done) if "" in done or done.keys() >= clocks.keys() else []
    seconds = _clocked([done], clocks)
    profiled_samples, profiled_seconds = profiled_among(context.latest, done, clocks)
    rate = ratio(sum(samples), seconds)
    if (seconds or 0.0) > profiled_seconds:
        without = (seconds or 0.0) - profiled_seconds
        rate = ratio(sum(samples) - profiled_samples, without)
    phase_totals = {phase: finite_by_rank(totals, names.phase_metric(phase)) for phase in PHASES}
    phases = _mean_seconds(phase_totals)
    phase_seconds = _clocked(list(phase_totals.values()), clocks)
    disturbed = interferences(context.ranks)
    ranks = rank_results(totals, disturbed)
    waited = {
        rank.rank: rank.measured.contention_share * rank.measured.seconds for rank in disturbed
    }
    sent = finite_by_rank(series, names.BYTES_PER_STEP)
    sampled = finite_by_rank(series, names.SAMPLED_STEP)
    result = Result(
        run_id=run.id,
        name=run.title,
        display_name=run.title,
        benchmark=run.benchmark,
        state=run.state,
        num_workers=run.num_workers,
        division=division(run),
        rule_violations=tuple(rule_violations(run, context.machines)),
        target=context.target,
        time_to_target=time_to_target,
        accuracy_after_time=(
            accuracy.after(after_seconds) if accuracy and not lineage.unclear else None
        ),
        last_value=accuracy.last() if accuracy else None,
        best_value=accuracy.best() if accuracy else None,
        epochs=_epochs(series),
        samples=sum(samples) if samples and not lineage.unclear else None,
        training_seconds=None if lineage.unclear else mean_or_none(_last_values(clocks)),
        wall_seconds=None if started_at is None else context.ended_at - started_at,
        samples_per_second=rate if samples else None,
        phases=with_other(phases, phase_seconds),
        communication_share=ratio(phases.get("communication"), phase_seconds),
        cost=context.cost(reached),
        energy_joules=run.energy_joules,
        disturbed=tuple(rank.text for rank in disturbed if rank.disturbed),
        contention_share=max((rank.contention_share for rank in disturbed), default=None),
        interferences=disturbed,
        curve=accuracy.curve(reached) if accuracy else None,
        clock_faults=tuple(_clock_faults(context)),
        world_size=run.world_size,
        bytes_sent_per_step=mean_or_none(_last_values(sent)),
        swept=run.swept,
        step_seconds=mean_or_none([rank.step_seconds for rank in ranks if rank.step_seconds]),
        ranks=ranks,
        stragglers=stragglers_of(series, context.dates, waited, stopped_spans(run, context.ranks)),
        goodput=goodput_of(
            run, context.ranks, context.ended_at, recorded, useless_from(loss, hang)
        ),
        checkpoints=_checkpoints(series),
        resumptions=lineage.resumptions,
        training_time_problem=next((unclear.text for unclear in lineage.unclear.values()), ""),
        hidden_phases=_mean_seconds(
            {phase: finite_by_rank(series, names.hidden_metric(phase)) for phase in PHASES}
        ),
        sampled_steps=min((len(column.values) for column in sampled.values()), default=None),
        injected_faults=sum(fault.at is not None and not fault.problem for fault in run.injected),
        outcome=outcome_of(
            run, context.target, time_to_target, loss, hang, is_reached=reached is not None
        ),
    )
    return replace(result, findings=findings_of(run, context.latest, result))


def _checkpoints(series: Columns) -> CheckpointCost | None:
    saved = finite_by_rank(series, names.CHECKPOINT_STEP)
    held = finite_by_rank(series, names.phase_metric("checkpoint"))
    sizes = _last_values(finite_by_rank(series, names.CHECKPOINT_BYTES))
    seconds = [held[rank].values[-1] / len(saved[rank].values) for rank in saved if rank in held]
    if not seconds or not sizes:
        return None
    count = max(len(column.values) for column in saved.values())
    return CheckpointCost(count, fmean(seconds), fmean(sizes))


def _clock_faults(context: RunContext) -> Iterator[str]:
    """Yield a sentence on each fault of a clock."""
    if context.run.clock_set_seconds:
        by = f"{context.run.clock_set_seconds:+,.0f} s"
        yield f"the master's clock was set by {by} meanwhile: times are as if it had not been"
    most: dict[tuple[int, str], float] = {}
    for row in context.ranks:
        offsets = {"after they came": row.dated_ahead, "before it began": row.dated_before}
        for error, seconds in offsets.items():
            if seconds:
                most[row.rank, error] = max(seconds, most.get((row.rank, error), 0.0))
    for (rank, error), seconds in sorted(most.items()):
        dated = f"rank {rank} dated values up to {seconds:,.0f} s {error}"
        yield f"{dated}: they count as recorded at the end of the run"


def _mean_seconds(totals: Mapping[Phase, ByRank]) -> dict[str, float]:
    """Return the mean seconds of each phase over the ranks that recorded any of them.

    A rank that recorded some phases spent no time in the others.
    """
    ranks = {rank for by_rank in totals.values() for rank in by_rank}
    return {
        phase: sum(_last_values(by_rank)) / len(ranks)
        for phase, by_rank in totals.items()
        if by_rank
    }


def _clocked(totals: Sequence[ByRank], clocks: ByRank) -> float | None:
    """Return the mean training time of the ranks at the time of their last totals.

    Ranks record their clock more often than totals, so the last clock may be too late.
    """
    last = last_recorded_us(totals)
    at_totals = [value_at(clocks[rank], at) for rank, at in last.items() if rank in clocks]
    return mean_or_none(at_totals or _last_values(clocks))


def _epochs(series: Columns, reached: Evaluation | None = None) -> int | None:
    """Count the epochs begun by the first rank, or until the target by the one that reached it."""
    by_rank = finite_by_rank(series, names.EPOCH)
    begun = next(iter(by_rank.values()), None)
    if reached:  # Ranks begin epochs at different times, and have their own clocks.
        begun = by_rank.get(reached.rank, begun)
    count = begun and (begun.first_from(reached.time_us + 1) if reached else len(begun.values))
    # A float from 2**53 on is not an exact count.
    if not begun or not count or abs(begun.values[count - 1]) >= 2**53:
        return None
    return round(begun.values[count - 1]) + 1


def _last_values(columns: ByRank) -> list[float]:
    return [column.values[-1] for column in columns.values()]
