"""The line of steps that a restarted run's last model descends from. Pure.

A run that goes on from a checkpoint does the steps after it again. What a rank had recorded after
that checkpoint, until it went on, is abandoned: no result, curve or download has it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from mlbench.contract import names
from mlbench.contract.results import Resumption
from mlbench.evaluation.inputs import Column, Columns, finite_by_rank

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
