"""Inputs of an evaluation: the run, its ranks, their series as columns, and the criteria.

``RunRow`` and ``RankRow`` are rows of the master's database or of an archive. They have only the
fields on which a result depends. Their times are Unix seconds.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, repeat
from statistics import fmean
from typing import Any

from mlbench.contract import names
from mlbench.contract.conversion import convert
from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH
from mlbench.contract.masking import mask_command
from mlbench.contract.names import PHASES, UNTRAINED, RunState
from mlbench.contract.records import Interference, Record, ReportedMachine, Target
from mlbench.contract.reported_settings import Setting
from mlbench.contract.results import RankInterference, RankResult
from mlbench.contract.runspec import RunSpec
from mlbench.contract.series import split_name
from mlbench.evaluation.statistics import ratio

# --- Series as columns ---


@dataclass(frozen=True)
class Column:
    """Numbers of a series in order of time, including NaN and infinities."""

    times_us: Sequence[int]
    values: Sequence[float]

    @cached_property
    def finite(self) -> "Column":
        """The finite numbers: this column if it has no others."""
        if math.isfinite(sum(self.values)):  # as nearly always, and in a third of the time
            return self
        return self.take([i for i, value in enumerate(self.values) if math.isfinite(value)])

    def take(self, positions: Sequence[int]) -> "Column":
        """Return the numbers at these positions, which ascend; this column for all of them."""
        times_us, values = self.times_us, self.values
        if len(positions) == len(values):
            return self
        return Column([times_us[i] for i in positions], [values[i] for i in positions])

    def between(self, from_us: int, until_us: int) -> "Column":
        """Return the numbers from one time to before another: this column if it has no others."""
        first, end = self.first_from(from_us), self.first_from(until_us)
        if first == 0 and end == len(self.values):
            return self
        return Column(self.times_us[first:end], self.values[first:end])

    def first_from(self, time_us: int) -> int:
        """Return the index of the first value at or after a time; the length if all are earlier."""
        return bisect_left(self.times_us, time_us)

    def at(self, time_us: int) -> float:
        """Return the number at a time, interpolated; outside of the series its first or last."""
        times_us, values = self.times_us, self.values
        after = bisect_right(times_us, time_us)
        if not 0 < after < len(times_us):
            return values[-1] if after else values[0]
        began_us, began = times_us[after - 1], values[after - 1]
        share = (time_us - began_us) / (times_us[after] - began_us)
        return began + (values[after] - began) * share


ByRank = Mapping[str, Column]
"""Columns of a metric by rank."""

Columns = Mapping[str, ByRank]
"""Columns by metric and rank; none is empty."""

Read = Callable[[Collection[str], int], Columns]
"""Function that reads the series of given names or metrics, of any rank, from a time on."""


def by_rank(columns: Columns, metric: str) -> ByRank:
    """Return the columns of a metric, or of the one series of this name, in order of ranks.

    The column without a rank comes first.
    """
    of_metric = columns.get(metric)
    if of_metric is None:
        name, rank = split_name(metric)
        column = columns.get(name, {}).get(rank)
        return {} if column is None else {rank: column}
    # Ranks are nearly always numbers: 2 comes before 10.
    return {rank: of_metric[rank] for rank in sorted(of_metric, key=lambda r: (len(r), r))}


def finite_by_rank(columns: Columns, metric: str) -> ByRank:
    """Return the finite numbers of a metric, in order of ranks; none is empty."""
    of_metric = by_rank(columns, metric).items()
    return {rank: column.finite for rank, column in of_metric if column.finite.values}


def finite_of_ranks(columns: Columns, metrics: Iterable[str]) -> dict[str, dict[str, Column]]:
    """Return the finite numbers of metrics by rank and metric; none is empty."""
    of_ranks: dict[str, dict[str, Column]] = {}
    for metric in metrics:
        for rank, column in finite_by_rank(columns, metric).items():
            of_ranks.setdefault(rank, {})[metric] = column
    return of_ranks


# --- Runs and ranks ---


@dataclass(frozen=True)
class Elsewhere(Record):
    """Installation that an imported run is from."""

    installation: str = ""
    """Host of its master; empty if the run's archive does not contain it."""


@dataclass(frozen=True)
class InjectedFault(Record):
    """Fault that is planned for a run or injected into it."""

    rank: int
    """Rank of the affected worker among the workers."""
    fault: str
    """Fault such as ``kill`` or ``stop:5s``."""
    seconds: float | None = None
    """Planned time, in seconds since all ranks of the first attempt were running; None for a fault
    that was injected by hand."""
    due_at: float | None = None
    """Planned time in Unix seconds; None before all ranks are running."""
    at: float | None = None
    """Time at which the agent injected the fault, or failed to; None if it has not yet."""
    attempt: int | None = None
    """Attempt into which the fault was injected; None if it has not been yet."""
    problem: str = ""
    """Reason why the agent could not inject the fault; else empty."""

    @property
    def how(self) -> str:
        """Origin of the fault: ``by hand``, or its planned time."""
        return "by hand" if self.seconds is None else f"planned at {self.seconds:.1f} s"


@dataclass(frozen=True)
class NotFiniteLoss(Record):
    """The first of the last values of a metric that are all NaN or infinite."""

    metric: str
    since: float
    """Unix seconds."""
    step: int | None = None
    """Step of the first of these values; None if it was not recorded."""
    rank: str | None = None
    """Rank that recorded the values; empty or None if they have none."""


@dataclass(frozen=True, kw_only=True)
class RunRow(RunSpec, Record):
    """A run: its request, its state, and its reported settings."""

    id: int
    name: str
    display_name: str = ""
    benchmark: str = ""
    image: str = ""
    command: str = ""
    backend: str = "gloo"
    run_all_nodes: bool = True
    swept: Mapping[str, str] = field(default_factory=dict)
    state: RunState
    reason: str = ""
    """Reason why the run failed or was stopped; empty for a run that finished."""
    not_finite: NotFiniteLoss | None = None
    """Loss that is not finite; None otherwise."""
    attempt: int = 0
    created_at: float = 0.0
    room_at: float | None = None
    """Time at which the run stopped waiting for other runs, if workers had to start then."""
    started_at: float | None = None
    finished_at: float | None = None
    clock_set_seconds: float = 0.0
    target: Target | None = None
    settings: Mapping[str, Setting] | None = None
    """Settings that the task reported; None before it has."""
    stated_world_size: int | None = None
    energy_joules: float | None = None
    origin: Elsewhere | None = None
    injected: tuple[InjectedFault, ...] = ()
    """Faults that were planned, or injected by hand."""

    @property
    def world_size(self) -> int:
        """Number of training processes; each is a rank."""
        return self.stated_world_size or self.num_workers

    @property
    def title(self) -> str:
        """Display name; else the name."""
        return self.display_name or self.name

    @property
    def whole_command(self) -> str:
        """Command with the options that MLBench adds, and with its secrets masked.

        It is empty for an official task.
        """
        options = {"--gpu": self.gpu_enabled, "--light": self.light_target}
        added = [option for option, is_set in options.items() if is_set]
        return " ".join([mask_command(self.command), *added]) if self.command else ""


@dataclass(frozen=True)
class Processes(Record):
    """Processes of a worker that has several."""

    ranks: tuple[int, ...]
    restarts: Mapping[str, float] = field(default_factory=dict)
    """Times of the restarts by torchrun, by their number."""


@dataclass(frozen=True, kw_only=True)
class RankRow(Record):
    """A worker in an attempt."""

    attempt: int
    rank: int
    worker: str = ""
    assigned_at: float = 0.0
    reported_at: float | None = None
    """Time of the agent's first report that the process runs; the start of an external process."""
    exit_code: int | None = None
    exited_at: float | None = None
    lost: str = ""
    """Reason why the master gave the rank up; else empty."""
    clock_ahead: float = 0.0
    """Seconds by which the worker's clock was ahead of the run's time."""
    dated_before: float = 0.0
    """Maximum seconds by which a value's time was before the begin of the rank."""
    dated_ahead: float = 0.0
    """Maximum seconds by which a value's time was after its arrival."""
    interference: Interference | None = None
    processes: Processes | None = None
    machine: ReportedMachine | None = None
    assignment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks of the worker's processes."""
        return self.processes.ranks if self.processes else (self.rank,)

    @property
    def cores(self) -> tuple[int, ...]:
        """Cores of the machine to which the worker was bound; empty if it was not bound."""
        return tuple(self.assignment.get("cpus", ()))


# --- Criteria ---


@dataclass(frozen=True)
class Criteria(Record):
    """Criteria by which runs are evaluated and compared; None for a run's own."""

    target: Target | None = None
    """Target; None for the target of each run."""
    after_seconds: float | None = None
    """Time of "accuracy after time" in seconds; None for each run's deadline, else two hours."""
    price: float | None = None
    """Price of a worker-second; None without costs."""
    group_by: tuple[str, ...] = ()
    """Attributes that a comparison groups runs by; empty for all attributes."""


OWN_CRITERIA = Criteria()


def read_target(text: str) -> Target:
    """Parse a target such as ``val_loss<=0.1``; raise ValueError for other texts."""
    lower_is_better = text.rfind("<=") > text.rfind(">=")
    parts = text.rpartition("<=" if lower_is_better else ">=")
    metric, sign, value = (part.strip(" ") for part in parts)
    with suppress(ValueError):
        if sign and 0 < len(metric) <= MAX_METRIC_NAME_LENGTH and "\0" not in metric:
            return Target(metric, convert(float, value), lower_is_better)
    raise ValueError(
        "must be METRIC>=VALUE or METRIC<=VALUE with a finite number, such as val_loss<=0.1 "
        f"(got {text[:80]!r})"
    )


# --- Metrics of MLBench's original tracker ---

_BATCHES = "CumulativeTrainTimeEpoch"
# These are the library's own steps of a batch and those of its tutorial. "loss" is left out because
# code of all kinds has long series of that name, and reading them takes time.
_STEPS: Mapping[names.Phase, Sequence[str]] = {
    "data": ("batch_load",),
    "forward": ("fwd_pass", "comp_loss", "forward"),
    "backward": ("backprop", "backward"),
    "communication": ("agg",),
    "optimizer": ("opt_step",),
    "metrics": ("comp_metrics",),
}
_PARTS: Mapping[str, Sequence[str]] = {
    names.TRAIN_SECONDS: (_BATCHES,),
    **{names.phase_metric(phase): steps for phase, steps in _STEPS.items()},
}


def _totals(part: str) -> Sequence[str]:
    """Return the names under which a part's total is posted when the target is reached."""
    more = ("TotalCumulativeTrainTime",) if part == _BATCHES else ()
    return (f"global_cum_{part}", *more)


NAMES = tuple(
    name for parts in _PARTS.values() for part in parts for name in (part, *_totals(part))
)
"""Metrics of the original tracker that a result is computed from."""


def add_totals(columns: Columns) -> Columns:
    """Return columns with the totals of ranks that MLBench's original tracker recorded.

    At the end of each epoch, each rank posts the seconds of its batches, in total and by step of a
    batch. When the target is reached, rank 0 posts the totals until then. Series that a
    rank recorded under MLBench's own names stay as they are.
    """
    added: dict[str, dict[str, Column]] = {}
    for rank in columns.get(_BATCHES, {}):
        for metric, parts in _PARTS.items():
            # Each change of a part's running total: its time, the part, and the new total.
            changes: list[tuple[int, str, float]] = []
            for part in parts:
                if epochs := columns.get(part, {}).get(rank):
                    sums = accumulate(epochs.values)
                    changes += zip(epochs.times_us, repeat(part), sums, strict=False)
                for name in _totals(part):
                    if column := columns.get(name, {}).get(rank):
                        changes += zip(column.times_us, repeat(part), column.values, strict=False)
            if not changes or rank in columns.get(metric, {}):
                continue
            totals: dict[str, float] = {}
            times_us, values = [], []
            for at_us, part, total in sorted(changes):
                totals[part] = total
                times_us.append(at_us)
                values.append(sum(totals.values()))
            added.setdefault(metric, {})[rank] = Column(times_us, values)
    return {
        **columns,
        **{metric: {**columns.get(metric, {}), **ranks} for metric, ranks in added.items()},
    }


# --- Totals of each rank ---

_PHASES: Mapping[str, str] = {phase: names.phase_metric(phase) for phase in PHASES}


def last_totals_us(series: Columns) -> Mapping[str, int]:
    """Return when each rank recorded its last samples or phases; else its last training time."""
    totals = (finite_by_rank(series, metric) for metric in (names.SAMPLES, *_PHASES.values()))
    clocks = last_recorded_us([finite_by_rank(series, names.TRAIN_SECONDS)])
    return clocks | last_recorded_us(totals)


def last_recorded_us(totals: Iterable[ByRank]) -> dict[str, int]:
    """Return when each rank recorded its last value of any of these."""
    last: dict[str, int] = {}
    for ranks in totals:
        for rank, column in ranks.items():
            last[rank] = max(column.times_us[-1], last.get(rank, column.times_us[-1]))
    return last


def value_at(column: Column, time_us: int) -> float:
    """Return a total in a millisecond or the next value; the last one if none follows."""
    position = column.first_from(time_us // 1000 * 1000)
    return column.values[min(position, len(column.values) - 1)]


def profiled_among(
    ranks: Sequence[RankRow], samples: ByRank, clocks: ByRank
) -> tuple[float, float]:
    """Return the samples of all ranks, and their mean training seconds, while one was profiled.

    Ranks wait for each other, so all are slower then. The last totals before a profile and the
    first after it bound the time that is left out. Profiles may overlap.
    """
    spans = sorted(
        span for rank in ranks if rank.interference for span in rank.interference.profiled
    )
    counts: list[float] = []
    durations: list[float] = []
    for rank in samples.keys() & clocks.keys():
        column, clock = samples[rank], clocks[rank]
        count = seconds = 0.0
        position = 0
        for began, ended in spans:
            first = max(position, column.first_from(round(began * 1e6) + 1) - 1)
            last = len(column.values) - 1
            position = min(max(first, column.first_from(round(ended * 1e6))), last)
            if first < position:
                begin_us, end_us = column.times_us[first], column.times_us[position]
                count += column.values[position] - column.values[first]
                seconds += value_at(clock, end_us) - value_at(clock, begin_us)
        counts.append(count)
        durations.append(seconds)
    return sum(counts), fmean(durations or [0.0])


def rank_results(
    series: Columns, interferences: Sequence[RankInterference]
) -> tuple[RankResult, ...]:
    """Return the result of each rank; later values than its last totals are left out.

    ``interferences`` are in order of attempts.
    """
    network = (names.NETWORK_SENT, names.NETWORK_RECEIVED)
    metrics = (names.SAMPLES, names.TRAIN_SECONDS, names.STEP, *_PHASES.values(), *network)
    of_ranks = finite_of_ranks(series, metrics)
    waiting = {interference.rank: interference.contention_share for interference in interferences}
    last_us = {rank: at for rank, at in last_totals_us(series).items() if rank.isdecimal()}
    results = []
    for rank, at_us in sorted(last_us.items(), key=lambda item: int(item[0])):
        recorded = of_ranks[rank]
        totals = {metric: value_at(column, at_us) for metric, column in recorded.items()}
        seconds, steps = totals.get(names.TRAIN_SECONDS), None
        if step := recorded.get(names.STEP):
            # Only a step of the same millisecond was recorded together with the totals: the last
            # one up to them, because a millisecond may hold several.
            position = step.first_from(at_us + 1) - 1
            if position >= step.first_from(at_us // 1000 * 1000):
                steps = round(step.values[position])
        timed = None if steps is None else steps - _steps_before_clock(recorded)
        phases = {phase: totals.get(metric) for phase, metric in _PHASES.items()}
        sent, received = (
            recorded[metric].values[-1] if metric in recorded else None for metric in network
        )
        communication = phases["communication"] if seconds else None
        compute = None if seconds is None or communication is None else seconds - communication
        results.append(
            RankResult(
                rank=int(rank),
                steps=steps,
                samples=totals.get(names.SAMPLES),
                training_seconds=seconds,
                step_seconds=ratio(seconds, timed),
                compute_seconds=ratio(compute, timed),
                communication_share=ratio(communication, seconds),
                phases=with_other({phase: time for phase, time in phases.items() if time}, seconds),
                contention_share=waiting.get(int(rank)),
                network_sent_bytes=sent,
                network_received_bytes=received,
            )
        )
    return tuple(results)


def has_steps_before_clock(clock: Column) -> bool:
    """Check whether steps may have ended before the training clock began, at exactly 0 s."""
    return clock.values[0] == 0.0


def _steps_before_clock(recorded: Mapping[str, Column]) -> int:
    """Return the number of steps that had ended when the training clock of a rank began."""
    clock, steps = recorded.get(names.TRAIN_SECONDS), recorded[names.STEP]
    if clock is None or not has_steps_before_clock(clock):
        return 0
    position = steps.first_from(clock.times_us[0] // 1000 * 1000)
    is_together = steps.times_us[position] // 1000 == clock.times_us[0] // 1000
    return round(steps.values[position]) if is_together else 0


def with_other(phases: Mapping[str, float], seconds: float | None) -> dict[str, float]:
    """Add the part of the training time that is in no phase."""
    if not phases or seconds is None:
        return dict(phases)
    trained = sum(time for phase, time in phases.items() if phase not in UNTRAINED)
    return {**phases, "other": max(0.0, seconds - trained)}


# --- Totals of a run that ended badly ---

ENDED_BADLY = ("FAILED", "STOPPED")
"""The states of runs whose ranks may have ended at different steps."""


def until_last_common_step(series: Columns) -> Columns:
    """Return the series with the totals of each rank up to the last step that all have done.

    The last reports of the ranks are of different moments: a killed rank made its report up to a
    second before its death, and the others made theirs after they had waited for it.

    The value at that step follows from the last totals before it: the clock advances by the time
    between the two steps, samples grow with the steps, and phases with the clock. No value exceeds
    the next recorded one. An evaluation between the two steps counts as training if its rank was
    killed before it recorded the next totals.

    The series stay as they are if a rank recorded no totals together with a step.
    """
    metrics = (names.TRAIN_SECONDS, names.SAMPLES, *_PHASES.values(), names.STEP)
    of_ranks = finite_of_ranks(series, metrics)
    trained = {rank: own for rank, own in of_ranks.items() if names.TRAIN_SECONDS in own}
    if not trained or not all(names.STEP in own for own in trained.values()):
        return series
    common = min(own[names.STEP].values[-1] for own in trained.values())
    ended = {metric: dict(of_metric) for metric, of_metric in series.items()}
    for rank, own in trained.items():
        columns_until = _until(common, own.pop(names.STEP), own)
        if not columns_until:
            return series
        for metric, column in columns_until.items():
            ended[metric][rank] = column
    return ended


def _until(common: float, steps: Column, totals: Mapping[str, Column]) -> dict[str, Column]:
    """Return the steps and totals of a rank up to a step; empty if no totals precede it."""
    clock = totals[names.TRAIN_SECONDS]
    reported_ms = {time_us // 1000 for time_us in totals.get(names.SAMPLES, clock).times_us}
    pairs = list(zip(steps.times_us, steps.values, strict=True))
    # A rank that closes after a wait records its last step again, with the duration of the wait.
    done_us = next((time_us for time_us, step in pairs if step == common), None)
    candidates = [
        (time_us, step)
        for time_us, step in pairs
        if 0 < step <= common
        and time_us // 1000 in reported_ms
        and (done_us is None or time_us <= done_us)
    ]
    if not candidates:
        return {}
    base_us, base_step = candidates[-1]
    base_seconds = value_at(clock, base_us)
    # If the step itself was not recorded, its time follows from the mean time of earlier steps.
    elapsed_us = round(base_seconds * (common / base_step - 1) * 1e6)
    at_us = base_us + elapsed_us if done_us is None else done_us
    seconds = _capped(clock, base_us, base_seconds + (at_us - base_us) / 1e6)
    growth = seconds / base_seconds if base_seconds else 1.0
    ended = {names.STEP: _ending(steps, at_us, at_us, common)}
    for metric, column in totals.items():
        if metric == names.TRAIN_SECONDS:
            value = seconds
        elif metric == names.SAMPLES:
            value = value_at(column, base_us) * common / base_step
        else:
            value = value_at(column, base_us) * growth
        if column.times_us[0] // 1000 <= base_us // 1000:
            ended[metric] = _ending(column, base_us, at_us, _capped(column, base_us, value))
        else:  # The rank first entered this phase after the last totals before the step.
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
