"""Result of a run, computed from its stored series (terms: ``mlbench.contract.results``).

The state tells how the processes ended; the outcome tells what the run achieved.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from math import ceil, isfinite, isnan
from statistics import fmean
from typing import Any, Literal, NamedTuple

from mlbench.archive import Archive, SeriesName
from mlbench.contract import names
from mlbench.contract.autopsy import Autopsy
from mlbench.contract.names import ACTIVE_STATES, PHASES, OutcomeKind, Phase
from mlbench.contract.records import Goal, Machine, Outcome
from mlbench.contract.results import (
    DEFAULT_AFTER_SECONDS,
    AccuracyAfterTime,
    CheckpointCost,
    Cost,
    Curve,
    Result,
    TimeToAccuracy,
)
from mlbench.contract.stated import reaches
from mlbench.evaluation import inputs
from mlbench.evaluation.goodput import Useless, goodput_of
from mlbench.evaluation.inputs import (
    ENDED_BADLY,
    OWN_CRITERIA,
    ByRank,
    Column,
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
from mlbench.evaluation.statistics import mean_or_none, ratio
from mlbench.evaluation.stragglers import disturbances, stragglers_of
from mlbench.evaluation.timeline import Dates, Line, dates_of, line_of, stopped_spans

# --- Accuracy ---

# The most points of a curve, about the pixels of a plot's width.
_CURVE_POINTS = 300
_NEVER_US = 1 << 62


class Evaluation(NamedTuple):
    """A value of the target's metric."""

    at_us: int
    """When it was recorded, in the run's time."""
    time_us: int
    """Its date, by whatever clock."""
    rank: str
    value: float


@dataclass(frozen=True)
class Accuracy:
    """The values of a target's metric, and the training time at which they were recorded."""

    target: Goal
    values: ByRank
    clocks: ByRank
    """Training seconds by rank, all finite."""
    started_us: int
    dates: Dates
    until: float = math.inf
    """Unix seconds from which on values do not count, because the model is NaN."""

    def reached(self) -> Evaluation | None:
        """Return the earliest value of any rank that is as good as the target."""
        first = min(filter(None, map(self._first_reaching, self.values)), default=None)
        return first if first and first.time_us < self.until * 1e6 else None

    def time_to(self, reached: Evaluation) -> TimeToAccuracy:
        """Return the time that it took to reach a value."""
        return TimeToAccuracy(
            self.training_seconds(reached.rank, reached.time_us), self._wall(reached.at_us)
        )

    def last(self) -> float | None:
        """Return the last value of any rank."""
        lasts = [next(self._evaluations(rank, backwards=True)) for rank in self.values]
        return max(lasts, key=lambda one: one.at_us).value if lasts else None

    def best(self) -> float | None:
        """Return the best value of any rank, without NaN."""
        numbers = (v for column in self.values.values() for v in column.values if not isnan(v))
        best = min if self.target.lower_is_better else max
        return best(numbers, default=None)

    def after(self, limit_seconds: float) -> AccuracyAfterTime:
        """Return the last value of any rank within a time."""
        lasts = filter(None, [self._last_within(rank, limit_seconds) for rank in self.values])
        last = max(lasts, key=lambda one: one.at_us, default=None)
        if last is None:
            return AccuracyAfterTime(
                limit_seconds, None, None, "training" if self.clocks else "wall"
            )
        return AccuracyAfterTime(limit_seconds, last.value, *self._seconds(last))

    def curve(self, reached: Evaluation | None) -> Curve | None:
        """Return the values of the rank that reached the target, or of the first, thinned out."""
        if not self.values:
            return None
        rank = reached.rank if reached else next(iter(self.values))
        at_us, order = self._in_order(rank)
        chosen = [self._evaluation(rank, at_us, order[i]) for i in _spread(len(order))]
        return Curve(
            tuple(self._wall(evaluation.at_us) for evaluation in chosen),
            tuple(self.training_seconds(rank, evaluation.time_us) for evaluation in chosen),
            tuple(evaluation.value for evaluation in chosen),
        )

    def training_seconds(self, rank: str, time_us: int) -> float | None:
        """Return the training time that a rank's process recorded in a millisecond, or next.

        The next one is later, so it never flatters. The clock of another process may begin anew.
        """
        clock = self._clock(rank)
        if clock is None:
            return None
        this_ms = time_us // 1000 * 1000
        later = clock.first_from(this_ms + 1000)
        if later > clock.first_from(this_ms):
            return clock.values[later - 1]
        if later < len(clock.times_us) and clock.times_us[later] < self._next_begin(time_us):
            return clock.values[later]
        return None

    def _clock(self, rank: str) -> Column | None:
        """Return a rank's clock; for values without a rank, the first clock."""
        found = self.clocks.get(rank) or self.clocks.get("")
        return found or (next(iter(self.clocks.values()), None) if not rank else None)

    def _next_begin(self, time_us: int) -> int:
        begun = self.dates.begun_us
        following = bisect_right(begun, time_us)
        return begun[following] if following < len(begun) else _NEVER_US

    def _wall(self, at_us: int) -> float:
        return (at_us - self.started_us) / 1e6

    def _seconds(self, one: Evaluation) -> tuple[float, Literal["training", "wall"]]:
        """Return a time in training seconds; where these were not recorded, since the start."""
        training = self.training_seconds(one.rank, one.time_us)
        return (self._wall(one.at_us), "wall") if training is None else (training, "training")

    def _evaluations(self, rank: str, *, backwards: bool = False) -> Iterator[Evaluation]:
        """Yield a rank's values in order of time, or from the last one to the first."""
        at_us, order = self._in_order(rank)
        for i in reversed(order) if backwards else order:
            yield self._evaluation(rank, at_us, i)

    def _in_order(self, rank: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return when a rank's values were recorded, and their positions in order of that."""
        times_us = self.values[rank].times_us
        at_us = self.dates.place(rank, times_us)
        positions = range(len(at_us))
        return at_us, positions if at_us is times_us else sorted(positions, key=at_us.__getitem__)

    def _evaluation(self, rank: str, at_us: Sequence[int], i: int) -> Evaluation:
        column = self.values[rank]
        return Evaluation(at_us[i], column.times_us[i], rank, column.values[i])

    def _first_reaching(self, rank: str) -> Evaluation | None:
        goal, lower = self.target.value, self.target.lower_is_better
        evaluations = self._evaluations(rank)
        return next((o for o in evaluations if reaches(o.value, goal, lower_is_better=lower)), None)

    def _last_within(self, rank: str, limit_seconds: float) -> Evaluation | None:
        evaluations = self._evaluations(rank, backwards=True)
        return next((one for one in evaluations if self._seconds(one)[0] <= limit_seconds), None)


def _spread(length: int) -> Sequence[int]:
    """Return evenly spread positions from the first to the last."""
    if length <= _CURVE_POINTS:
        return range(length)
    return [i * (length - 1) // (_CURVE_POINTS - 1) for i in range(_CURVE_POINTS)]


# --- Outcome ---

# Diagnoses of failed ranks explain a crash, not a hang.
_HANG_REASONS = ("asked", "stalled", "deadline", "stopped")
# In these cases ranks make progress, or have exited.
_NOT_HUNG = ("going", "gone")
_LONGEST_TEXT = 300
_RANK = re.compile(r"rank (\d+)\b")


@dataclass(frozen=True)
class NotFiniteLoss:
    """The first of the last values of a metric that are all NaN or infinite."""

    metric: str
    since: float
    """Unix seconds."""
    step: int | None
    """None if the step was not recorded."""


@dataclass(frozen=True)
class Hang:
    """A hang that lasted until the end of the run."""

    since: float
    """Unix seconds of the last step of any rank; of the diagnosis if no rank reported a step."""
    steps: int
    """Largest number of steps of any rank."""
    sentence: str
    """Verdict of the diagnosis."""


def not_finite_loss(run: RunRow, target: Goal | None, series: Columns) -> NotFiniteLoss | None:
    """Return since when a loss or the target's metric is not finite; None if all are finite.

    A later finite value of the same series makes the loss count as finite again.
    """
    found = []
    if loss := run.not_finite:
        found.append(NotFiniteLoss(loss["metric"], loss["since"], loss["step"]))
    for column in by_rank(series, target.metric).values() if target else ():
        bad = len(column.values)
        while bad and not isfinite(column.values[bad - 1]):
            bad -= 1
        if target and bad < len(column.values):
            found.append(NotFiniteLoss(target.metric, column.times_us[bad] / 1e6, None))
    return min(found, key=lambda loss: loss.since, default=None)


def hang_of(run: RunRow, series: Columns, autopsies: Sequence[Autopsy]) -> Hang | None:
    """Return the hang that the run is in, or was in when it was ended; None without one."""
    last = next((one for one in reversed(autopsies) if one.attempt == run.attempt), None)
    if last is None or last.reason not in _HANG_REASONS or last.verdict.kind in _NOT_HUNG:
        return None
    if run.state == "FINISHED" and not run.reason:
        return None  # All ranks exited by themselves.
    evidence = [one for one in last.evidence if one.quiet_seconds is not None]
    is_stalled = last.reason == "stalled"
    if not is_stalled and (not evidence or last.verdict.certainty == "none"):
        return None  # The run may only be slow.
    asked_at = datetime.fromisoformat(last.asked_at).timestamp()
    if any(at > asked_at for at in _step_times(series)):
        return None
    stood = [one.at - one.quiet_seconds for one in evidence if one.quiet_seconds is not None]
    # What agents tell of the steps may be a second old.
    told = [float(one.steps) for one in last.evidence]
    told += [max(column.values) for column in finite_by_rank(series, names.STEP).values()]
    steps = round(max(told, default=0.0))
    return Hang(max(stood, default=asked_at), steps, last.verdict.sentence)


def useless_from(loss: NotFiniteLoss | None, hang: Hang | None) -> Useless | None:
    """Return from when on a run could not succeed, and the bucket of that time; None if it could.

    The earlier one counts where a run diverged and hung.
    """
    begun: list[Useless] = []
    if loss:
        begun.append((round(loss.since * 1e6), "diverged"))
    if hang:
        begun.append((round(hang.since * 1e6), "hung"))
    return min(begun, default=None)


def outcome_of(
    run: RunRow,
    target: Goal | None,
    reached: TimeToAccuracy | None,
    loss: NotFiniteLoss | None,
    hang: Hang | None,
    *,
    is_reached: bool,
) -> Outcome | None:
    """Return the outcome of a run; None while the run is active.

    ``is_reached`` tells that a value reached the target, also where its time is unknown.
    """
    if run.state in ACTIVE_STATES:
        return None
    outcome = _outcome("completed", "completed without a target")
    if loss:
        seconds = loss.since - (run.started_at or loss.since)
        since = f"{seconds:.1f} s" if loss.step is None else f"step {loss.step:,}"
        text = f"NaN since {since} ({loss.metric})"
        outcome = _outcome("nan", text, since=loss.since, step=loss.step)
    elif hang:
        text = f"hung after {hang.steps:,} steps: {hang.sentence}"
        outcome = _outcome("hung", text[:_LONGEST_TEXT], since=hang.since, step=hang.steps)
    elif run.state == "FAILED":
        outcome = _crash(run.reason)
    elif is_reached:
        outcome = _reached(run, reached)
    elif run.state == "STOPPED":
        outcome = _outcome("stopped", "stopped")
    elif target:
        outcome = _outcome("not_reached", "target not reached")
    return outcome


def _reached(run: RunRow, reached: TimeToAccuracy | None) -> Outcome:
    if reached is None:
        return _outcome("reached", "target reached, at an unknown time")
    seconds, clock = reached.wall_seconds, "since the start"
    if reached.training_seconds is not None:
        seconds, clock = reached.training_seconds, "of training"
    at = (run.started_at or 0.0) + reached.wall_seconds
    return _outcome("reached", f"target reached in {seconds:.4g} s {clock}", since=at)


def _crash(reason: str) -> Outcome:
    """Return a crash with the rank and the error that a reason names."""
    lines = reason.strip().splitlines() or ["unknown error"]
    first, last = lines[0].strip().rstrip(":"), lines[-1].strip()
    error = first if len(lines) == 1 else f"{first}: {last}"
    rank = _RANK.search(first)
    text = f"crashed: {error}"[:_LONGEST_TEXT]
    return _outcome("crashed", text, rank=int(rank[1]) if rank else None)


def _outcome(kind: OutcomeKind, text: str, **where: Any) -> Outcome:
    return Outcome(kind, text, names.OUTCOMES[kind], **where)


def _step_times(series: Columns) -> Iterator[float]:
    """Yield the time of the last step of each rank, in Unix seconds."""
    for column in by_rank(series, names.STEP).values():
        yield column.times_us[-1] / 1e6
    for column in by_rank(series, names.SAMPLES).values():
        # Totals are recorded again at the end of the process.
        first = next(i for i, value in enumerate(column.values) if value == column.values[-1])
        yield column.times_us[first] / 1e6


# --- Result ---

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


# --- Summary metrics ---

_SMALL_CURVE_POINTS = 60
_MOST_METRICS = 100


@dataclass(frozen=True)
class Figures:
    """What a run's result says in numbers. Shares are from 0 to 1, times are seconds."""

    disturbed: bool = False
    outcome: Outcome | None = None
    waiting_share: float | None = None
    waiting_rank: int | None = None
    """The rank that waited most for a core that others had."""
    training_seconds: float | None = None
    samples: float | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    communication_share: float | None = None
    late_rank: int | None = None
    without_late: float | None = None
    """The speed if no rank had been late, relative to its own."""
    epochs: int | None = None
    metric: str = ""
    """The target's."""
    best_value: float | None = None
    last_value: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    goodput: Mapping[str, float] = field(default_factory=dict)
    """Seconds of all workers in each bucket."""
    curve: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Of the target's metric: seconds since the start, and values, as many as a small curve has."""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """``min``, ``max`` and ``last`` of each metric's finite values: see ``metrics_of``."""


def figures_of(result: Result) -> Figures:
    """Return the figures of a result."""
    most = max(result.disturbances, key=lambda rank: rank.waiting_share, default=None)
    late = result.stragglers
    straggler = next((r for r in late.ranks if r.rank == late.named), None) if late else None
    same: dict[str, Any] = {
        field.name: _finite(getattr(result, field.name, None)) for field in fields(Figures)
    }
    others = {
        "disturbed": bool(result.disturbed),
        "waiting_rank": most.rank if most else None,
        "late_rank": straggler.rank if straggler else None,
        "without_late": straggler.times_as_fast if straggler else None,
        "metric": result.target.metric if result.target else "",
        "goodput": result.goodput.seconds if result.goodput else {},
        "curve": _thin(result.curve) if result.curve else ((), ()),
        "metrics": {},
    }
    return Figures(**(same | others))


def metrics_of(archive: Archive) -> dict[str, dict[str, float]]:
    """Return the extremes of what the first rank of a run has recorded, of up to 100 metrics."""
    first: dict[str, SeriesName] = {}
    of_run = (name for name in archive.series if not name.pod)
    for name in sorted(of_run, key=lambda name: (name.metric, len(name.rank), name.rank)):
        first.setdefault(name.metric, name)
    extremes = {}
    for metric, name in list(first.items())[:_MOST_METRICS]:
        pieces = sorted(archive.read(name), key=lambda piece: piece.times_us[:1])
        values = list(filter(isfinite, chain.from_iterable(piece.values for piece in pieces)))
        if values:
            extremes[metric] = {"min": min(values), "max": max(values), "last": values[-1]}
    return extremes


def _thin(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return few points of a curve, its last one too, to five digits."""
    pairs = zip(curve.wall_seconds, curve.values, strict=True)
    points = [(_short(at), _short(one)) for at, one in pairs if one is not None and isfinite(one)]
    step = ceil(len(points) / _SMALL_CURVE_POINTS) or 1
    thin = points[::-1][::step][::-1]
    return tuple(at for at, _ in thin), tuple(value for _, value in thin)


def _short(number: float) -> float:
    return float(f"{number:.5g}")


def _finite(value: object) -> object:
    """Return a value that JSON has: no NaN, and no infinity."""
    return None if isinstance(value, float) and not isfinite(value) else value
