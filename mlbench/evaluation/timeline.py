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
    ByRank,
    Column,
    Columns,
    InjectedFault,
    RankRow,
    RunRow,
    finite_by_rank,
)

# --- Corrected times ---

_SLACK_US = round(SLACK_SECONDS * 1e6)


@dataclass(frozen=True)
class Dates:
    """When attempts began and by how much clocks were wrong, in microseconds."""

    attempts_us: Sequence[int]
    """When each attempt began, in order."""
    begun_us: Sequence[int]
    """When processes began, in order: with each attempt, and whenever torchrun began them anew."""
    ended_us: int
    """The run's end, or now."""
    ahead_us: Mapping[str, Sequence[int]]
    """By how much the clock of a rank was ahead in each attempt; none for a rank that was right."""

    def place(self, rank: str, times_us: Sequence[int]) -> Sequence[int]:
        """Return when values were recorded: their times themselves if these can be right.

        A date that cannot be counts as the run's end, which never flatters.
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
            key: Column(self.place(key[1], column.times_us), column.values)
            for key, column in columns.items()
        }


def _within(first_us: int, last_us: int, bounds: Sequence[int]) -> bool:
    return bounds[0] - _SLACK_US <= first_us and last_us <= bounds[-1] + _SLACK_US


def dates_of(ranks: Iterable[RankRow], started_at: float, ended_at: float) -> Dates:
    """Return the dates of a run from the ranks of all its attempts."""
    began: dict[int, float] = {}
    anew: list[float] = []
    ahead: dict[str, dict[int, float]] = {}
    for rank in ranks:
        began[rank.attempt] = min(rank.assigned_at, began.get(rank.attempt, rank.assigned_at))
        anew += rank.processes.restarts.values() if rank.processes else ()
        for process in rank.ranks if rank.clock_ahead else ():
            ahead.setdefault(str(process), {})[rank.attempt] = rank.clock_ahead
    attempts = sorted(began) or [1]
    attempts_us = [round(began.get(attempt, started_at) * 1e6) for attempt in attempts]
    return Dates(
        attempts_us,
        sorted([*attempts_us, *(round(at * 1e6) for at in anew)]),
        round(ended_at * 1e6),
        {
            rank: [round(offsets.get(attempt, 0.0) * 1e6) for attempt in attempts]
            for rank, offsets in ahead.items()
        },
    )


# --- Lineage of the final model ---

_NEVER_US = 1 << 62

Interval = tuple[int, int]
"""From a time to before another one, in microseconds by a rank's clock."""


@dataclass(frozen=True)
class UnclearResumption:
    """A restarted process that continued training from a state that it does not report.

    Its epoch or step was above 0 at its start, while its training clock started at 0.
    """

    began_us: int
    unit: Literal["epoch", "step"]
    number: int
    """The first epoch or step that the process recorded."""

    @property
    def text(self) -> str:
        """Why the training time is unknown, and how to record it."""
        return (
            f"after a restart, training continued at {self.unit} {self.number} without "
            "t.load_state_dict(…): "
            "save t.state_dict() in the checkpoint, and load it before the first epoch"
        )


@dataclass(frozen=True)
class Line:
    """What of a run's values is on the line, and where the run went on after restarts."""

    abandoned: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    """By rank, in order, none touching another."""
    resumptions: tuple[Resumption, ...] = ()
    unclear: Mapping[str, "UnclearResumption"] = field(default_factory=dict)
    """Last unclear resumption of each rank that has one: the training time before it is unknown."""

    @property
    def unclear_text(self) -> str:
        """Why the training time of the final model is unknown, with the remedy; else empty."""
        return next((resumption.text for resumption in self.unclear.values()), "")

    def kept(self, columns: Columns) -> Columns:
        """Return the columns without what was abandoned."""
        if not self.abandoned:
            return columns
        kept = {key: self._kept(key[1], column) for key, column in columns.items()}
        return {key: column for key, column in kept.items() if column.times_us}

    def runs(self, rank: str, times_us: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
        """Yield ranges of positions that are on the line or not: first, end, whether they are."""
        start = 0
        for first_us, end_us in self.abandoned.get(rank, ()):
            first, end = bisect_left(times_us, first_us), bisect_left(times_us, end_us)
            yield start, first, True
            yield first, end, False
            start = end
        yield start, len(times_us), True

    def _kept(self, rank: str, column: Column) -> Column:
        if rank not in self.abandoned:
            return column
        places = [i for a, b, on in self.runs(rank, column.times_us) if on for i in range(a, b)]
        return Column([column.times_us[i] for i in places], [column.values[i] for i in places])


def line_of(columns: Columns, begun_us: Sequence[int]) -> Line:
    """Return the line of a run by its steps and checkpoints.

    ``begun_us``: when its processes began, and began anew. Ranks say from which step they go on;
    where one does not, that is the one before the first that it records.
    """
    if len(begun_us) < 2:
        return Line()
    metrics = (names.STEP, names.CHECKPOINT_STEP, names.RESTORED_STEP, names.EPOCH)
    by_metric = [finite_by_rank(columns, metric) for metric in (*metrics, names.TRAIN_SECONDS)]
    steps = by_metric[0]
    nothing = Column([], [])
    unclear: dict[str, UnclearResumption] = {}
    abandoned: dict[str, list[Interval]] = {}
    resumed: dict[int, Resumption] = {}
    for rank in steps:
        of_rank = [column.get(rank, nothing) for column in by_metric]
        line = _RankLine(begun_us, *of_rank)
        for attempt, resumption in line.resume():
            other = resumed.get(attempt, resumption)
            lost = max(resumption.abandoned_steps, other.abandoned_steps)
            resumed[attempt] = Resumption(resumption.step, lost, resumption.stated and other.stated)
        if line.abandoned:
            abandoned[rank] = line.abandoned
        if line.unclear:
            unclear[rank] = line.unclear
    return Line(abandoned, tuple(resumed[attempt] for attempt in sorted(resumed)), unclear)


class _RankLine:
    """The line of a rank, as its resumptions leave it."""

    def __init__(
        self,
        begun_us: Sequence[int],
        steps: Column,
        saved: Column,
        restored: Column,
        epochs: Column,
        clock: Column,
    ) -> None:
        self._steps, self._saved, self._restored = steps, saved, restored
        self._epochs, self._clock = epochs, clock
        self._begun_us = begun_us
        self.abandoned: list[Interval] = []
        self.unclear: UnclearResumption | None = None

    def resume(self) -> Iterator[tuple[int, Resumption]]:
        """Abandon what each resumption leaves behind; yield them, each with its beginning."""
        for begun, at_us, step, stated in self._resumptions():
            first_us = self._first_left(at_us, step, stated=stated)
            left = [value for _, value in self._between(self._steps, first_us, at_us)]
            if not left and not stated:
                continue
            lost = round(max(left, default=step) - max(step, 0))
            if first_us < at_us:
                kept = [interval for interval in self.abandoned if interval[1] <= first_us]
                self.abandoned = [*kept, (first_us, at_us)]
            yield begun, Resumption(max(step, 0), max(lost, 0), stated)

    def _resumptions(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yield which beginning it is, when it goes on, from which step, and whether it says so."""
        for begun, (from_us, to_us) in enumerate(pairwise([*self._begun_us[1:], _NEVER_US])):
            stated = next(self._between(self._restored, from_us, to_us), None)
            first = next(self._between(self._steps, from_us, to_us), None)
            if stated:
                yield begun, stated[0], round(stated[1]), True
            elif first:
                resumption = self._unclear_resumption(from_us, to_us)
                self.unclear = resumption or self.unclear
                if resumption is None or resumption.unit == "step":
                    yield begun, from_us, round(first[1]) - 1, False

    def _unclear_resumption(self, from_us: int, to_us: int) -> UnclearResumption | None:
        """Return how a process that reports no restored step continued; None if it began anew.

        A process that carries its training clock on is clear: its time includes the former one.
        """
        seconds = self._first(self._clock, from_us, to_us)
        if seconds is None or seconds[1] * 1e6 > seconds[0] - from_us:
            return None
        epoch = self._first(self._epochs, from_us, to_us)
        if epoch and epoch[1] > 0:
            return UnclearResumption(from_us, "epoch", round(epoch[1]))
        step = self._first(self._steps, from_us, to_us)
        # The first process shows how many steps pass before one is recorded.
        if step and step[1] > 2 * self._steps.values[0] + 1:
            return UnclearResumption(from_us, "step", round(step[1]))
        return None

    def _first(self, column: Column, from_us: int, to_us: int) -> tuple[int, float] | None:
        """Return the first time and value between two times."""
        place = column.first_from(from_us)
        if place == column.first_from(to_us):
            return None
        return column.times_us[place], column.values[place]

    def _first_left(self, at_us: int, step: int, *, stated: bool) -> int:
        """Return from when on nothing is on the line that was recorded before it goes on."""
        if step <= 0:
            return 0
        saved = [us for us, one in self._between(self._saved, 0, at_us) if one == step]
        if stated and saved:
            return saved[-1] + 1
        later = (us for us, one in self._between(self._steps, 0, at_us) if one > step)
        return next(later, at_us)

    def _between(self, column: Column, from_us: int, to_us: int) -> Iterator[tuple[int, float]]:
        """Yield the times and values between two times that are not abandoned so far."""
        for i in range(column.first_from(from_us), column.first_from(to_us)):
            at_us = column.times_us[i]
            place = bisect_right(self.abandoned, (at_us, _NEVER_US)) - 1
            if place < 0 or at_us >= self.abandoned[place][1]:
                yield at_us, column.values[i]


# --- Processes ---

Key = tuple[int, int]
"""An attempt, and how often torchrun had begun its processes anew in it."""

_METRICS = (
    *(names.TRAIN_SECONDS, names.SAMPLES, names.RESTORED_STEP),
    *(names.SAMPLED_STEP, names.SAMPLED_COMMUNICATION),
    *(names.phase_metric(phase) for phase in PHASES),
)
_LATEST_SECONDS = 1e11  # some thousand years from now
# What is recorded within a millisecond was recorded at once.
_AT_ONCE_US = 1000


@dataclass(frozen=True)
class Life:
    """A process from its start on, with what it recorded."""

    key: Key
    rank: str
    began_us: int
    totals: Mapping[str, Column] = field(repr=False)
    """By metric; none is empty."""

    @cached_property
    def has_clock(self) -> bool:
        """Whether it recorded its training time."""
        return names.TRAIN_SECONDS in self.totals

    @property
    def _clock(self) -> Column:
        return self.totals[names.TRAIN_SECONDS]

    @property
    def last_us(self) -> int:
        """When it recorded its training time last."""
        return self._clock.times_us[-1]

    @cached_property
    def restored_step(self) -> float | None:
        """The step that it went on from; None if it does not say."""
        column = self.totals.get(names.RESTORED_STEP)
        return column.values[-1] if column else None

    @cached_property
    def is_resumed(self) -> bool:
        """Whether it went on from a checkpoint.

        One that does not say so did, if its first training time is longer than it has been there.
        """
        if self.restored_step is not None:
            return self.restored_step > 0
        first_us, seconds = self._clock.times_us[0], self._clock.values[0]
        return seconds * 1e6 > first_us - self.began_us

    @cached_property
    def carried_seconds(self) -> float:
        """The training time that it went on from."""
        return self._clock.values[0] if self.is_resumed else 0.0

    @cached_property
    def trains_us(self) -> int:
        """When its training began: one that goes on records its first totals then."""
        trained = self._clock.values[0] - self.carried_seconds
        return self._clock.times_us[0] - whole_us(trained)

    def before_training(self, metric: str) -> float:
        """Return a total as it was when the training began.

        Of its first value, what is longer than the training until then came before it.
        """
        column, first_us = self.totals.get(metric), self._clock.times_us[0]
        if column is None or column.times_us[0] > first_us + _AT_ONCE_US:
            return 0.0
        return max(0.0, column.values[0] - (first_us - self.trains_us) / 1e6)

    def at(self, metric: str, time_us: int) -> float:
        """Return a total at a time of the training, interpolated between what was recorded."""
        column = self.totals.get(metric)
        if column is None:
            return 0.0
        first_us = column.times_us[0]
        if time_us < first_us:
            before = self.before_training(metric)
            column = Column([self.trains_us, first_us], [before, column.values[0]])
        return column.at(time_us)

    def in_training(self, metric: str, until_us: int) -> float:
        """Return how much was added to a total from the begin of the training to a time."""
        if metric == names.TRAIN_SECONDS:
            return max(0.0, self.at(metric, until_us) - self.carried_seconds)
        return max(0.0, self.at(metric, until_us) - self.before_training(metric))


def whole_us(seconds: float) -> int:
    """Return a time in microseconds; what cannot be a time counts as the nearest that can be."""
    return round(min(seconds, _LATEST_SECONDS) * 1e6) if seconds > 0 else 0


def lives_of(ranks: Sequence[RankRow], series: Columns) -> dict[str, list[Life]]:
    """Return the processes of each rank, in order of time; ``series`` have the run's time."""
    totals = {metric: finite_by_rank(series, metric) for metric in _METRICS}
    begun: dict[str, list[tuple[Key, int, int]]] = {}
    for row in sorted(ranks, key=lambda row: row.attempt):
        for process in map(str, row.ranks):
            begun.setdefault(process, []).extend(_begun(row))
    return {rank: list(_cut(rank, keys, totals)) for rank, keys in begun.items()}


def _begun(row: RankRow) -> Iterator[tuple[Key, int, int]]:
    """Yield the processes of a worker in an attempt: when they may record, and when they began."""
    assigned_us = round(row.assigned_at * 1e6)
    yield (row.attempt, 0), assigned_us, max(assigned_us, whole_us(row.reported_at or 0.0))
    restarts = row.processes.restarts if row.processes else {}
    for number, at in sorted(restarts.items(), key=lambda one: one[1]):
        if number != "0":
            yield (row.attempt, int(number)), whole_us(at), whole_us(at)


def _cut(
    rank: str, begun: Sequence[tuple[Key, int, int]], totals: Mapping[str, ByRank]
) -> Iterator[Life]:
    """Divide what a rank recorded among its processes."""
    recorded = {metric: of_ranks[rank] for metric, of_ranks in totals.items() if rank in of_ranks}
    for (key, from_us, began_us), (_, until_us, _) in pairwise([*begun, ((0, 0), _NEVER_US, 0)]):
        its = {metric: _between(column, from_us, until_us) for metric, column in recorded.items()}
        its = {metric: column for metric, column in its.items() if column.times_us}
        first_us = min((column.times_us[0] for column in its.values()), default=began_us)
        yield Life(key, rank, min(began_us, first_us), its)


def _between(column: Column, from_us: int, until_us: int) -> Column:
    first, end = column.first_from(from_us), column.first_from(until_us)
    return Column(column.times_us[first:end], column.values[first:end])


def kept_until(lives: Iterable[Life], line: Line) -> dict[tuple[str, Key], int]:
    """Return up to when each process that trained led to the final model.

    What it did after that had to be done again from a checkpoint.
    """
    kept: dict[tuple[str, Key], int] = {}
    for life in lives:
        if life.has_clock:
            left = line.abandoned.get(life.rank, ())
            firsts = (first_us for first_us, end_us in left if first_us <= life.last_us < end_us)
            kept[life.rank, life.key] = max(life.trains_us, next(firsts, _NEVER_US))
    return kept


# --- Stops ---

_LASTING = ("stop", "slow", "network")


@dataclass(frozen=True)
class Stop:
    """A span of an attempt in which its ranks were held up."""

    begin_us: int
    end_us: int
    share: float
    """Part of the span that was lost, 0 to 1."""


@dataclass(frozen=True)
class Stops:
    """The stops of an attempt, in order, none overlapping another."""

    spans: Sequence[Stop] = ()

    def seconds(self, life: Life, metric: str, until_us: int) -> float:
        """Return how much of a process's total until a time fell into stops, in seconds."""
        first_us = life.trains_us
        return sum(
            stop.share
            * (
                life.at(metric, min(stop.end_us, until_us))
                - life.at(metric, max(stop.begin_us, first_us))
            )
            for stop in self.spans
            if stop.begin_us < until_us and stop.end_us > first_us
        )

    def wall_seconds(self, life: Life, until_us: int) -> float:
        """Return how long stops lasted in the training of a process until a time, in seconds.

        The clock of a process does not run while its machine sleeps.
        """
        spans = (
            stop.share * (min(stop.end_us, until_us) - max(stop.begin_us, life.trains_us))
            for stop in self.spans
            if stop.begin_us < until_us and stop.end_us > life.trains_us
        )
        return sum(spans) / 1e6


def stops_of(run: RunRow, rows: Sequence[RankRow], lives: Mapping[str, Sequence[Life]]) -> Stops:
    """Return the stops of an attempt, whose ranks are ``rows``."""
    spans = [stop for fault in run.injected for stop in _stop(fault, rows, lives)]
    spans += [stop for row in rows for stop in _noticed(row)]
    edges = sorted({us for stop in spans for us in (stop.begin_us, stop.end_us)})
    shares = (
        (begin, end, [s.share for s in spans if s.begin_us <= begin and end <= s.end_us])
        for begin, end in pairwise(edges)
    )
    return Stops([Stop(begin, end, max(found)) for begin, end, found in shares if found])


def stopped_spans(run: RunRow, rows: Iterable[RankRow]) -> list[tuple[int, int]]:
    """Return when ranks of any attempt were held up, in microseconds of the run's time."""
    spans = [(stop.begin_us, stop.end_us) for row in rows for stop in _noticed(row)]
    for injected in run.injected:
        fault = Fault.parse(injected.fault)
        if fault.kind in _LASTING and injected.at is not None and not injected.problem:
            begin_us = whole_us(injected.at)
            lasts_us = _NEVER_US if fault.seconds is None else whole_us(fault.seconds)
            spans.append((begin_us, begin_us + lasts_us))
    return spans


def _stop(
    injected: InjectedFault, rows: Sequence[RankRow], lives: Mapping[str, Sequence[Life]]
) -> Iterator[Stop]:
    """Yield the span of a fault that was carried out in the attempt of some ranks."""
    row = next((row for row in rows if row.rank == injected.rank), None)
    fault = Fault.parse(injected.fault)
    if row is None or injected.at is None or injected.problem or injected.attempt != row.attempt:
        return
    life = next((life for life in lives[str(row.ranks[0])] if life.key == (row.attempt, 0)), None)
    if fault.kind not in _LASTING or life is None or not life.has_clock:
        return
    begin_us = whole_us(injected.at)
    end_us = life.last_us if fault.seconds is None else begin_us + whole_us(fault.seconds)
    end_us = min(end_us, life.last_us)
    if begin_us < end_us:
        share = 1.0 if fault.kind == "stop" else _slowdown(life, begin_us, end_us)
        yield Stop(begin_us, end_us, share)


def _noticed(row: RankRow) -> Iterator[Stop]:
    """Yield the stops of a rank that its agent noticed."""
    for begin, end in row.disturbance.stopped if row.disturbance else ():
        yield Stop(whole_us(begin - row.clock_ahead), whole_us(end - row.clock_ahead), 1.0)


def _slowdown(life: Life, begin_us: int, end_us: int) -> float:
    """Return by which share a process had fewer samples a second within a span than outside."""

    def inside(metric: str) -> float:
        return life.at(metric, end_us) - life.at(metric, max(begin_us, life.trains_us))

    samples, seconds = inside(names.SAMPLES), inside(names.TRAIN_SECONDS)
    others = life.in_training(names.SAMPLES, life.last_us) - samples
    rest = life.in_training(names.TRAIN_SECONDS, life.last_us) - seconds
    if seconds <= 0 or rest <= 0 or others <= 0:
        return 0.0
    return min(1.0, max(0.0, 1.0 - samples / seconds / (others / rest)))
