"""Timeline of a run: corrected times, lineage of the final model, processes and stops.

All times are microseconds in the run's time, and all totals are seconds. A run that resumes from a
checkpoint repeats the steps after it. Everything that a rank recorded between that checkpoint and
the resumption is discarded: no result, curve or download contains it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal

from mlbench.contract import names
from mlbench.contract.clock import SLACK_SECONDS
from mlbench.contract.faults import Fault
from mlbench.contract.names import PHASES
from mlbench.contract.results import Resumption
from mlbench.evaluation.inputs import (
    Column,
    Columns,
    InjectedFault,
    RankRow,
    RunRow,
    finite_by_rank,
    finite_of_ranks,
)

# --- Corrected times ---

_SLACK_US = round(SLACK_SECONDS * 1e6)


@dataclass(frozen=True)
class ClockCorrection:
    """Begins of attempts and processes, and the errors of the ranks' clocks, in microseconds."""

    attempts_us: Sequence[int]
    """Begin of each attempt, in order."""
    begun_us: Sequence[int]
    """Begin of each attempt, and of each restart by torchrun, in order."""
    ended_us: int
    """End of the run; the present time for an active run."""
    ahead_us: Mapping[str, Sequence[int]]
    """By how much the clock of a rank was ahead in each attempt; ranks with correct clocks are
    absent."""

    def place(self, rank: str, times_us: Sequence[int]) -> Sequence[int]:
        """Return the times of values in the run's time: ``times_us`` itself if all can be right.

        A time that cannot be right counts as the end of the run, which never flatters a result.
        """
        ahead = self.ahead_us.get(rank, [0] * len(self.attempts_us))
        bounds = [*self.attempts_us[:1], self.ended_us]
        if not any(ahead) and _within(times_us[0], times_us[-1], bounds):
            return times_us
        end = self.ended_us
        attempts = list(zip(pairwise([*self.attempts_us, end]), ahead, strict=True))
        return [
            next((t - off for bounds, off in attempts if _within(t - off, t - off, bounds)), end)
            for t in times_us
        ]

    def placed(self, columns: Columns) -> Columns:
        """Return columns with their times in the run's time."""
        return {
            metric: {rank: self._placed(rank, column) for rank, column in ranks.items()}
            for metric, ranks in columns.items()
        }

    def _placed(self, rank: str, column: Column) -> Column:
        times_us = self.place(rank, column.times_us)
        return column if times_us is column.times_us else Column(times_us, column.values)


def _within(first_us: int, last_us: int, bounds: Sequence[int]) -> bool:
    return bounds[0] - _SLACK_US <= first_us and last_us <= bounds[-1] + _SLACK_US


def clock_correction_of(
    ranks: Iterable[RankRow], started_at: float, ended_at: float
) -> ClockCorrection:
    """Return the dates of a run from the ranks of all its attempts."""
    began: dict[int, float] = {}
    restarted: list[float] = []
    ahead: dict[str, dict[int, float]] = {}
    for rank in ranks:
        began[rank.attempt] = min(rank.assigned_at, began.get(rank.attempt, rank.assigned_at))
        restarted += rank.processes.restarts.values() if rank.processes else ()
        for process in rank.ranks if rank.clock_ahead else ():
            ahead.setdefault(str(process), {})[rank.attempt] = rank.clock_ahead
    attempts = sorted(began) or [1]
    attempts_us = [round(began.get(attempt, started_at) * 1e6) for attempt in attempts]
    return ClockCorrection(
        attempts_us,
        sorted([*attempts_us, *(round(at * 1e6) for at in restarted)]),
        round(ended_at * 1e6),
        {
            rank: [round(offsets.get(attempt, 0.0) * 1e6) for attempt in attempts]
            for rank, offsets in ahead.items()
        },
    )


# --- Lineage of the final model ---

_NEVER_US = 1 << 62

Interval = tuple[int, int]
"""Begin and end of a span, in microseconds of a rank's clock; the end is excluded."""


@dataclass(frozen=True)
class UnclearResumption:
    """A restarted process that continued training from a state that it does not report.

    Its epoch or step was above 0 or unknown at its start, while its training clock started at 0.
    """

    began_us: int
    unit: Literal["epoch", "step"]
    number: int | None
    """The first epoch or step that the process recorded; None for a step that is unknown."""

    @property
    def text(self) -> str:
        """Why the training time is unknown, and how to record it."""
        place = "an unknown step" if self.number is None else f"{self.unit} {self.number}"
        return (
            f"after a restart, training continued at {place} without t.load_state_dict(…): "
            "save t.state_dict() in the checkpoint, and load it before the first epoch"
        )


@dataclass(frozen=True)
class Lineage:
    """Lineage of a run's final model: the discarded spans, and the resumptions."""

    discarded: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    """Discarded spans by rank, in order; no span touches another."""
    resumptions: tuple[Resumption, ...] = ()
    unclear: Mapping[str, "UnclearResumption"] = field(default_factory=dict)
    """Last unclear resumption of each rank that has one: the training time before it is unknown."""

    def kept(self, columns: Columns) -> Columns:
        """Return the columns without discarded values; columns without any other are absent."""
        if not self.discarded:
            return columns
        lineage: dict[str, dict[str, Column]] = {}
        for metric, ranks in columns.items():
            for rank, column in ranks.items():
                runs = self.runs(rank, column.times_us)
                positions = [
                    i for first, end, is_kept in runs if is_kept for i in range(first, end)
                ]
                if positions:
                    lineage.setdefault(metric, {})[rank] = column.take(positions)
        return lineage

    def runs(self, rank: str, times_us: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
        """Yield ranges of positions: the first, the end, and whether they are in the lineage."""
        start = 0
        for first_us, end_us in self.discarded.get(rank, ()):
            first, end = bisect_left(times_us, first_us), bisect_left(times_us, end_us)
            yield start, first, True
            yield first, end, False
            start = end
        yield start, len(times_us), True


def lineage_of(columns: Columns, begun_us: Sequence[int]) -> Lineage:
    """Return the lineage of a run's final model, from its steps and checkpoints.

    ``begun_us`` are the begins and restarts of its processes. A rank reports the step that it
    resumes from. If it does not, that is the step before the first one that it records.
    """
    if len(begun_us) < 2:
        return Lineage()
    metrics = (names.STEP, names.CHECKPOINT_STEP, names.RESTORED_STEP, names.EPOCH)
    by_metric = [finite_by_rank(columns, metric) for metric in (*metrics, names.TRAIN_SECONDS)]
    unclear: dict[str, UnclearResumption] = {}
    discarded: dict[str, list[Interval]] = {}
    resumed: dict[int, Resumption] = {}
    for rank in by_metric[0]:
        lineage = _RankLineage(begun_us, *(ranks.get(rank, Column([], [])) for ranks in by_metric))
        for attempt, resumption in lineage.resume():
            other = resumed.get(attempt, resumption)
            repeated = max(resumption.discarded_steps, other.discarded_steps)
            is_stated = resumption.stated and other.stated
            resumed[attempt] = Resumption(resumption.step, repeated, is_stated)
        if lineage.discarded:
            discarded[rank] = lineage.discarded
        if lineage.unclear:
            unclear[rank] = lineage.unclear
    return Lineage(discarded, tuple(resumed[attempt] for attempt in sorted(resumed)), unclear)


@dataclass
class _RankLineage:
    """Lineage of a rank: each resumption discards a span of it."""

    begun_us: Sequence[int]
    steps: Column
    saved: Column
    restored: Column
    epochs: Column
    clock: Column
    discarded: list[Interval] = field(init=False, default_factory=list)
    unclear: UnclearResumption | None = field(init=False, default=None)

    def resume(self) -> Iterator[tuple[int, Resumption]]:
        """Discard the span of each resumption; yield the number of its begin, and itself."""
        for begun, (from_us, to_us) in enumerate(pairwise([*self.begun_us[1:], _NEVER_US])):
            restored = next(self._between(self.restored, from_us, to_us), None)
            first = next(self._between(self.steps, from_us, to_us), None)
            if restored:
                at_us, step = restored[0], round(restored[1])
            elif first:
                at_us, step = from_us, round(first[1]) - 1
                resumption = self._unclear_resumption(from_us, to_us)
                self.unclear = resumption or self.unclear
                if resumption and resumption.unit == "epoch":
                    continue
            else:
                # The agent's watch over code without a tracker numbers no steps after a restart.
                self.unclear = self._unclear_resumption(from_us, to_us) or self.unclear
                continue
            first_us = 0
            if step > 0:
                saved = [us for us, value in self._between(self.saved, 0, at_us) if value == step]
                later = (us for us, value in self._between(self.steps, 0, at_us) if value > step)
                first_us = saved[-1] + 1 if restored and saved else next(later, at_us)
            discarded = [value for _, value in self._between(self.steps, first_us, at_us)]
            if not discarded and not restored:
                continue
            repeated = round(max(discarded, default=step) - max(step, 0))
            if first_us < at_us:
                earlier = [interval for interval in self.discarded if interval[1] <= first_us]
                self.discarded = [*earlier, (first_us, at_us)]
            yield begun, Resumption(max(step, 0), max(repeated, 0), restored is not None)

    def _unclear_resumption(self, from_us: int, to_us: int) -> UnclearResumption | None:
        """Return how a process without a restored step continued; None if it started from scratch.

        A process that continues its training clock is clear: its time includes the earlier one.
        """
        seconds = self._first(self.clock, from_us, to_us)
        if seconds is None or seconds[1] * 1e6 > seconds[0] - from_us:
            return None
        epoch = self._first(self.epochs, from_us, to_us)
        if epoch and epoch[1] > 0:
            return UnclearResumption(from_us, "epoch", round(epoch[1]))
        step = self._first(self.steps, from_us, to_us)
        if step is None:
            return UnclearResumption(from_us, "step", None)
        # The first process shows how many steps pass before one is recorded.
        if step[1] > 2 * self.steps.values[0] + 1:
            return UnclearResumption(from_us, "step", round(step[1]))
        return None

    def _first(self, column: Column, from_us: int, to_us: int) -> tuple[int, float] | None:
        """Return the first time and value between two times."""
        position = column.first_from(from_us)
        if position == column.first_from(to_us):
            return None
        return column.times_us[position], column.values[position]

    def _between(self, column: Column, from_us: int, to_us: int) -> Iterator[tuple[int, float]]:
        """Yield the times and values between two times that are not discarded so far."""
        for i in range(column.first_from(from_us), column.first_from(to_us)):
            at_us = column.times_us[i]
            position = bisect_right(self.discarded, (at_us, _NEVER_US)) - 1
            if position < 0 or at_us >= self.discarded[position][1]:
                yield at_us, column.values[i]


# --- Processes ---

Key = tuple[int, int]
"""Number of an attempt, and of the restart by torchrun within it: 0 for the first processes."""

_METRICS = (
    *(names.TRAIN_SECONDS, names.SAMPLES, names.RESTORED_STEP),
    *(names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *(names.phase_metric(phase) for phase in PHASES),
)


@dataclass(frozen=True)
class ProcessLifetime:
    """Lifetime of a process, and the totals that it recorded."""

    key: Key
    rank: str
    began_us: int
    totals: Mapping[str, Column] = field(repr=False)
    """Columns by metric; none is empty."""

    @cached_property
    def has_clock(self) -> bool:
        """Whether the process recorded its training time."""
        return names.TRAIN_SECONDS in self.totals

    @property
    def _clock(self) -> Column:
        return self.totals[names.TRAIN_SECONDS]

    @property
    def last_us(self) -> int:
        """Time of the last recorded training time."""
        return self._clock.times_us[-1]

    @cached_property
    def is_resumed(self) -> bool:
        """Whether the process resumed from a checkpoint.

        Without a report, it did if its first training time exceeds its age.
        """
        if restored := self.totals.get(names.RESTORED_STEP):
            return restored.values[-1] > 0
        first_us, seconds = self._clock.times_us[0], self._clock.values[0]
        return seconds * 1e6 > first_us - self.began_us

    @cached_property
    def carried_seconds(self) -> float:
        """Training time of the checkpoint that the process resumed from, in seconds; else 0."""
        return self._clock.values[0] if self.is_resumed else 0.0

    @cached_property
    def trains_us(self) -> int:
        """Begin of the training; a resumed process records its first totals then."""
        trained = self._clock.values[0] - self.carried_seconds
        return self._clock.times_us[0] - whole_us(trained)

    def kept_us(self, lineage: Lineage) -> int:
        """Return the time until which the training contributed to the final model.

        Its later steps had to be repeated from a checkpoint.
        """
        spans = lineage.discarded.get(self.rank, ())
        firsts = (first_us for first_us, end_us in spans if first_us <= self.last_us < end_us)
        return max(self.trains_us, next(firsts, _NEVER_US))

    def before_training(self, metric: str) -> float:
        """Return a total at the begin of the training.

        The part of its first value that exceeds the training until then was added earlier.
        """
        column, first_us = self.totals.get(metric), self._clock.times_us[0]
        # Totals that were recorded together differ by less than a millisecond.
        if column is None or column.times_us[0] > first_us + 1000:
            return 0.0
        return max(0.0, column.values[0] - (first_us - self.trains_us) / 1e6)

    def at(self, metric: str, time_us: int) -> float:
        """Return a total at a time of the training, interpolated between recorded values."""
        column = self.totals.get(metric)
        if column is None:
            return 0.0
        first_us = column.times_us[0]
        if time_us < first_us:
            # The totals before the first value were recorded without this one, so it had not grown.
            position = self._clock.first_from(first_us)
            from_us = self._clock.times_us[position - 1] if position else self.trains_us
            before = self.before_training(metric)
            column = Column([from_us, first_us], [before, column.values[0]])
        return column.at(time_us)

    def in_training(self, metric: str, until_us: int) -> float:
        """Return the increase of a total from the begin of the training to a time."""
        if metric == names.TRAIN_SECONDS:
            return max(0.0, self.at(metric, until_us) - self.carried_seconds)
        return max(0.0, self.at(metric, until_us) - self.before_training(metric))


def whole_us(seconds: float) -> int:
    """Return a time in microseconds, from 0 to some thousand years from now."""
    return round(min(seconds, 1e11) * 1e6) if seconds > 0 else 0


def lifetimes_of(ranks: Sequence[RankRow], series: Columns) -> dict[str, list[ProcessLifetime]]:
    """Return the processes of each rank, in order of time; ``series`` have the run's time."""
    totals = finite_of_ranks(series, _METRICS)
    # Each process has a key, a time from which its rank may record, and a begin.
    begun: dict[str, list[tuple[Key, int, int]]] = {}
    for row in sorted(ranks, key=lambda row: row.attempt):
        assigned_us = round(row.assigned_at * 1e6)
        began_us = max(assigned_us, whole_us(row.reported_at or 0.0))
        processes = [((row.attempt, 0), assigned_us, began_us)]
        restarts = row.processes.restarts if row.processes else {}
        for number, at in sorted(restarts.items(), key=lambda restart: restart[1]):
            if number != "0":
                processes.append(((row.attempt, int(number)), whole_us(at), whole_us(at)))
        for rank in map(str, row.ranks):
            begun.setdefault(rank, []).extend(processes)
    lifetimes: dict[str, list[ProcessLifetime]] = {rank: [] for rank in begun}
    for rank, processes in begun.items():
        ends_us = [*(from_us for _, from_us, _ in processes[1:]), _NEVER_US]
        for (key, from_us, began_us), until_us in zip(processes, ends_us, strict=True):
            recorded = totals.get(rank, {}).items()
            own = {metric: column.between(from_us, until_us) for metric, column in recorded}
            columns = {metric: column for metric, column in own.items() if column.values}
            first_us = min((column.times_us[0] for column in columns.values()), default=began_us)
            lifetime = ProcessLifetime(key, rank, min(began_us, first_us), columns)
            lifetimes[rank].append(lifetime)
    return lifetimes


# --- Stops ---


@dataclass(frozen=True)
class Stop:
    """Span of an attempt in which its ranks were stopped, slowed or disconnected.

    The master injects some of these as faults. Agents notice others, such as a SIGSTOP from another
    program or a machine that slept.
    """

    begin_us: int
    end_us: int
    share: float
    """Lost part of the span, 0 to 1."""


@dataclass(frozen=True)
class Stops:
    """Stops of an attempt, in order and without overlap."""

    spans: Sequence[Stop] = ()

    def seconds(self, life: ProcessLifetime, metric: str, until_us: int) -> float:
        """Return the part of a process's total until a time that fell into stops, in seconds."""
        return sum(
            share * (life.at(metric, end_us) - life.at(metric, begin_us))
            for share, begin_us, end_us in self._in_training(life, until_us)
        )

    def wall_seconds(self, life: ProcessLifetime, until_us: int) -> float:
        """Return the duration of stops in the training of a process until a time, in seconds.

        The training clock of a process stands while its machine sleeps.
        """
        stops = self._in_training(life, until_us)
        return sum(share * (end_us - begin_us) for share, begin_us, end_us in stops) / 1e6

    def _in_training(
        self, life: ProcessLifetime, until_us: int
    ) -> Iterator[tuple[float, int, int]]:
        """Yield the share, begin and end of each stop in the training of a process."""
        for stop in self.spans:
            if stop.begin_us < until_us and stop.end_us > life.trains_us:
                yield stop.share, max(stop.begin_us, life.trains_us), min(stop.end_us, until_us)


def stops_of(
    run: RunRow, rows: Sequence[RankRow], lifetimes: Mapping[str, Sequence[ProcessLifetime]]
) -> Stops:
    """Return the stops of an attempt, whose ranks are ``rows``."""
    spans = [stop for row in rows for stop in _noticed(row)]
    for injected, kind, begin_us, until_us in _lasting_faults(run):
        row = next((row for row in rows if row.rank == injected.rank), None)
        if row is None or injected.attempt != row.attempt:
            continue
        key = (row.attempt, 0)
        life = next((life for life in lifetimes[str(row.ranks[0])] if life.key == key), None)
        if life and life.has_clock and begin_us < (end_us := min(until_us, life.last_us)):
            share = 1.0 if kind == "stop" else _slowdown(life, begin_us, end_us)
            spans.append(Stop(begin_us, end_us, share))
    edges = sorted({us for stop in spans for us in (stop.begin_us, stop.end_us)})
    shares = (
        (begin, end, [s.share for s in spans if s.begin_us <= begin and end <= s.end_us])
        for begin, end in pairwise(edges)
    )
    return Stops([Stop(begin, end, max(overlap)) for begin, end, overlap in shares if overlap])


def stopped_spans(run: RunRow, rows: Iterable[RankRow]) -> list[tuple[int, int]]:
    """Return the spans in which ranks of any attempt were held up, in the run's time."""
    noticed = [(stop.begin_us, stop.end_us) for row in rows for stop in _noticed(row)]
    return [*noticed, *((begin_us, end_us) for _, _, begin_us, end_us in _lasting_faults(run))]


def _lasting_faults(run: RunRow) -> Iterator[tuple[InjectedFault, str, int, int]]:
    """Yield the injected faults that held ranks up: each with its kind, begin and end."""
    for injected in run.injected:
        fault = Fault.parse(injected.fault)
        is_lasting = fault.kind in ("stop", "slow", "network")
        if is_lasting and injected.at is not None and not injected.problem:
            begin_us = whole_us(injected.at)
            end_us = _NEVER_US if fault.seconds is None else begin_us + whole_us(fault.seconds)
            yield injected, fault.kind, begin_us, end_us


def _noticed(row: RankRow) -> Iterator[Stop]:
    """Yield the stops of a rank that its agent noticed."""
    for begin, end in row.interference.stopped if row.interference else ():
        yield Stop(whole_us(begin - row.clock_ahead), whole_us(end - row.clock_ahead), 1.0)


def _slowdown(life: ProcessLifetime, begin_us: int, end_us: int) -> float:
    """Return the share by which a process's samples per second were lower within a span."""

    def inside(metric: str) -> float:
        return life.at(metric, end_us) - life.at(metric, max(begin_us, life.trains_us))

    samples, seconds = inside(names.SAMPLES), inside(names.TRAIN_SECONDS)
    others = life.in_training(names.SAMPLES, life.last_us) - samples
    rest = life.in_training(names.TRAIN_SECONDS, life.last_us) - seconds
    if seconds <= 0 or rest <= 0 or others <= 0:
        return 0.0
    return min(1.0, max(0.0, 1.0 - samples / seconds / (others / rest)))
