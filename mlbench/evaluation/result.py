"""Compute the result of a run from its stored series (terms: ``mlbench.contract.results``)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from mlbench.contract import names
from mlbench.contract.autopsy import Autopsy
from mlbench.contract.names import PHASES, Phase
from mlbench.contract.records import Goal, Machine
from mlbench.contract.results import DEFAULT_AFTER_SECONDS, CheckpointCost, Cost, Result
from mlbench.evaluation import inputs
from mlbench.evaluation.accuracy import Accuracy, Evaluation
from mlbench.evaluation.goodput import goodput_of
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
from mlbench.evaluation.stragglers import disturbances, stragglers_of
from mlbench.evaluation.timeline import Dates, Line, dates_of, line_of, stopped_spans

# A larger number is no count of epochs.
_LARGEST_COUNT = 2**53

LINE_METRICS = (names.CHECKPOINT_STEP, names.CHECKPOINT_BYTES, names.RESTORED_STEP)
TOTALS = (
    *(names.TRAIN_SECONDS, names.SAMPLES, names.EPOCH, names.BYTES_PER_STEP),
    *(names.NETWORK_SENT, names.NETWORK_RECEIVED),
    *(names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *LINE_METRICS,
    *(names.phase_metric(phase) for phase in PHASES),
    *(names.hidden_metric(phase) for phase in PHASES),
)
"""The metrics that a result is computed from, besides its target's."""


@dataclass(frozen=True)
class RunContext:
    """A run, all that is known of it besides its series, and what it is evaluated by."""

    run: RunRow
    ranks: Sequence[RankRow]
    """Of all attempts; those of the latest with their machines and assignments."""
    ended_at: float
    """Unix seconds; now, for a run that has not ended."""
    criteria: Criteria = OWN_CRITERIA
    autopsies: Sequence[Autopsy] = ()
    """Hang diagnoses of all attempts, the latest last."""

    @property
    def target(self) -> Goal | None:
        """The goal that it is judged by."""
        return self.criteria.target or self.run.goal

    @cached_property
    def latest(self) -> list[RankRow]:
        """The ranks of its latest attempt, in order."""
        latest = (rank for rank in self.ranks if rank.attempt == self.run.attempt)
        return sorted(latest, key=lambda rank: rank.rank)

    @property
    def machines(self) -> list[Machine]:
        """The machines of its latest attempt, as far as they are known."""
        return [rank.machine for rank in self.latest if rank.machine]

    @cached_property
    def dates(self) -> Dates:
        """When its attempts began, in the run's time."""
        return dates_of(self.ranks, self.run.started_at or self.run.created_at, self.ended_at)

    def accuracy(self, series: Columns) -> Accuracy | None:
        """Return the values of the target's metric; None without a target, or before the start."""
        if self.target is None or self.run.started_at is None:
            return None
        values = by_rank(series, self.target.metric)
        clocks = finite_by_rank(series, names.TRAIN_SECONDS)
        started_us = round(self.run.started_at * 1e6)
        loss = not_finite_loss(self.run, self.target, series)
        until = loss.since if loss else math.inf
        return Accuracy(self.target, values, clocks, started_us, self.dates, until)

    def line(self, series: Columns) -> Line:
        """Return the line that its last model descends from."""
        return line_of(series, self.dates.begun_us)

    def worker_seconds(self, until: float) -> float:
        """Return for how long the run has held its workers up to a time, in Unix seconds.

        A worker is held from the run's turn in the queue to its end, also between two attempts.
        """
        begun: dict[int, float] = {}
        for rank in self.ranks:
            assigned_at = self.run.room_at or rank.assigned_at
            begun[rank.rank] = min(assigned_at, begun.get(rank.rank, assigned_at))
        return sum(max(0.0, min(self.ended_at, until) - at) for at in begun.values())


def read_series(context: RunContext, read: Read) -> Columns:
    """Read the series that the result of a run is computed from."""
    run, target = context.run, context.target
    if run.started_at is None:
        return {}
    metrics = {*TOTALS, *inputs.NAMES, *([target.metric] if target else ())}
    # Samples from before the start, which clients may post, are no merit of this run; but those of
    # a rank whose clock is wrong are.
    early = max((rank.dated_before - rank.clock_ahead for rank in context.ranks), default=0.0)
    since_ms = int((run.started_at - max(0.0, early)) * 1000)
    columns = inputs.add_totals(read(sorted(metrics), since_ms * 1000))
    # All steps tell which were abandoned, and which was the last one of all ranks.
    if len(context.dates.begun_us) > 1 or run.state in ENDED_BADLY:
        return {**columns, **read((names.STEP,), since_ms * 1000)}
    # Of the steps, which are many, only those from the last totals on.
    last_us = min(last_totals_us(columns).values(), default=None)
    if last_us is None:
        return columns
    return {**columns, **read((names.STEP,), last_us // 1000 * 1000)}


def evaluate(context: RunContext, recorded: Columns) -> Result:
    """Compute the result of a run from its series, which begin with its start.

    All but the goodput is of the line that the last model descends from.
    """
    line = context.line(recorded)
    series = line.kept(recorded)
    run, started_at = context.run, context.run.started_at
    accuracy = context.accuracy(series)
    reached, time_to_accuracy = accuracy.reached() if accuracy else None, None
    if accuracy and reached and not line.unclear:
        epochs = _epochs(series, reached)
        time_to_accuracy = replace(accuracy.time_to(reached), epochs=epochs)
    after_seconds = context.criteria.after_seconds or run.deadline_seconds or DEFAULT_AFTER_SECONDS
    totals = until_last_common_step(series) if run.state in ENDED_BADLY else series
    clocks = finite_by_rank(totals, names.TRAIN_SECONDS)
    done = finite_by_rank(totals, names.SAMPLES)
    sent = finite_by_rank(series, names.BYTES_PER_STEP)
    sampled = finite_by_rank(series, names.SAMPLED_STEP)
    # The samples of some ranks would pass for those of all.
    samples = _last_values(done) if "" in done or done.keys() >= clocks.keys() else []
    profiled = profiled_among(context.latest, done, clocks)
    rate = _rate(sum(samples), _clocked([done], clocks), profiled)
    phases, communication_share = _phases(totals, clocks)
    disturbed = disturbances(context.ranks)
    loss = not_finite_loss(run, context.target, series)
    hang = hang_of(run, series, context.autopsies)
    ranks = rank_results(totals, disturbed)
    waited = {
        rank.rank: rank.measured.contention_share * rank.measured.seconds for rank in disturbed
    }
    return Result(
        run_id=run.id,
        name=run.title,
        display_name=run.title,
        benchmark=run.benchmark,
        state=run.state,
        num_workers=run.num_workers,
        division=division(run),
        departures=tuple(rule_violations(run, context.machines)),
        target=context.target,
        time_to_accuracy=time_to_accuracy,
        accuracy_after_time=(
            accuracy.after(after_seconds) if accuracy and not line.unclear else None
        ),
        last_value=accuracy.last() if accuracy else None,
        best_value=accuracy.best() if accuracy else None,
        epochs=_epochs(series),
        samples=sum(samples) if samples and not line.unclear else None,
        training_seconds=None if line.unclear else mean_or_none(_last_values(clocks)),
        wall_seconds=None if started_at is None else context.ended_at - started_at,
        samples_per_second=rate if samples else None,
        phases=phases,
        communication_share=communication_share,
        cost=_cost(context, reached),
        energy_joules=run.energy_joules,
        disturbed=tuple(rank.text for rank in disturbed if rank.disturbed),
        waiting_share=max((rank.waiting_share for rank in disturbed), default=None),
        disturbances=disturbed,
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
        resumptions=line.resumptions,
        training_time_problem=line.unclear_text,
        hidden_phases=_mean_seconds(
            {phase: finite_by_rank(series, names.hidden_metric(phase)) for phase in PHASES}
        ),
        sampled_steps=min((len(column.values) for column in sampled.values()), default=None),
        injected_faults=sum(one.at is not None and not one.problem for one in run.injected),
        outcome=outcome_of(
            run, context.target, time_to_accuracy, loss, hang, is_reached=reached is not None
        ),
    )


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
    """Yield what was wrong with clocks, a sentence each."""
    if context.run.clock_set_seconds:
        by = f"{context.run.clock_set_seconds:+,.0f} s"
        yield f"the master's clock was set by {by} meanwhile: times are as if it had not been"
    most: dict[tuple[int, str], float] = {}
    for row in context.ranks:
        offs = {"after they came": row.dated_ahead, "before it began": row.dated_before}
        for how, seconds in offs.items():
            if seconds:
                most[row.rank, how] = max(seconds, most.get((row.rank, how), 0.0))
    for (rank, how), seconds in sorted(most.items()):
        dated = f"rank {rank} dated values up to {seconds:,.0f} s {how}"
        yield f"{dated}: they count as recorded at the end of the run"


def _phases(series: Columns, clocks: ByRank) -> tuple[dict[str, float], float | None]:
    """Return the mean seconds in each phase and in none, and the share of communication.

    A rank that recorded some phases spent no time in the others.
    """
    totals = {phase: finite_by_rank(series, names.phase_metric(phase)) for phase in PHASES}
    phases = _mean_seconds(totals)
    training_seconds = _clocked(list(totals.values()), clocks)
    share = ratio(phases.get("communication"), training_seconds)
    return with_other(phases, training_seconds), share


def _mean_seconds(totals: Mapping[Phase, ByRank]) -> dict[str, float]:
    """Return the mean seconds of each phase over the ranks that recorded any of them."""
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


def _rate(samples: float, seconds: float | None, profiled: tuple[float, float]) -> float | None:
    """Return samples by seconds, without those that were profiled unless they are all."""
    without = (seconds or 0.0) - profiled[1]
    return ratio(samples - profiled[0], without) if without > 0 else ratio(samples, seconds)


def _epochs(series: Columns, reached: Evaluation | None = None) -> int | None:
    """Count the epochs that the first rank has begun, or the one that reached the goal by then."""
    by_rank = finite_by_rank(series, names.EPOCH)
    begun = next(iter(by_rank.values()), None)
    if reached:  # ranks begin apart, and have clocks of their own
        begun = by_rank.get(reached.rank, begun)
    count = begun and (begun.first_from(reached.time_us + 1) if reached else len(begun.values))
    if not begun or not count or abs(begun.values[count - 1]) >= _LARGEST_COUNT:
        return None
    return round(begun.values[count - 1]) + 1


def _cost(context: RunContext, reached: Evaluation | None) -> Cost | None:
    if context.run.started_at is None:
        return None
    total, price = context.worker_seconds(context.ended_at), context.criteria.price
    to_target = None if reached is None else context.worker_seconds(reached.at_us / 1e6)
    return Cost(total, to_target, price, _product(total, price), _product(to_target, price))


def _last_values(columns: ByRank) -> list[float]:
    return [column.values[-1] for column in columns.values()]


def _product(seconds: float | None, price: float | None) -> float | None:
    return None if seconds is None or price is None else seconds * price
