"""Placing the dates that ranks gave, by whatever clock, in the run's time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlbench.contract.clock import SLACK_SECONDS
from mlbench.evaluation.inputs import Column, Columns, RankRow

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
