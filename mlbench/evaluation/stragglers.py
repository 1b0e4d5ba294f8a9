"""What it costs that ranks come late to the exchanges in which the others wait for them. Pure.

After Lin et al.: Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI
2025): put a typical rank's time in place of each rank's, simulate, and compare. Simulated are the
spans between two totals of the first rank, a step each, or a second of shorter steps:

- A span takes the longest own work of a rank, and the shortest communication: the last rank waits
  for nobody, and how late it is shows in the communication of the others alone.
- Typical is the rank whose own work is the lower median of the span: of two ranks, the faster one.
- Ranks that are late in turns within a span cost more than is found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite

from mlbench import names
from mlbench.evaluation.columns import Column, Columns, finite_by_rank
from mlbench.evaluation.dates import Dates
from mlbench.names import Bucket
from mlbench.results import LateRank, Stragglers

_COMMUNICATION = names.phase_metric("communication")
_PHASES = (_COMMUNICATION, names.phase_metric("data"), names.phase_metric("checkpoint"))
_PARTS: Mapping[Bucket, str] = {
    "compute": "computing",
    "data": "loading data",
    "checkpoint": "saving checkpoints",
}
# A prediction is right to 5 %: less is no gain that can be promised.
_WORTH_A_WORD = 1.05
_MOST_SPANS_OF_RANKS = 50_000


@dataclass(frozen=True)
class _Work:
    """What a rank did in a span, in seconds: its own work, which has parts, and communication."""

    rank: int
    own: float
    parts: Mapping[Bucket, float]
    communication: float


def stragglers_of(series: Columns, dates: Dates) -> Stragglers | None:
    """Return what it cost that ranks were late, by the totals of all.

    None where one trains alone, or where not all record their communication and training time.
    """
    totals: dict[str, dict[str, Column]] = {}
    for metric in (names.TRAIN_SECONDS, *_PHASES):
        for rank, column in finite_by_rank(series, metric).items():
            if rank.isdecimal():
                placed = Column(dates.place(rank, column.times_us), column.values)
                totals.setdefault(rank, {})[metric] = placed
    recorded = [its for its in totals.values() if {names.TRAIN_SECONDS, _COMMUNICATION} <= {*its}]
    if len(totals) < 2 or len(recorded) < len(totals):  # noqa: PLR2004 - one has no others
        return None
    exchanged = [its[_COMMUNICATION] for its in recorded]
    began_us = max(its[names.TRAIN_SECONDS].times_us[0] for its in recorded)
    ended_us = max(began_us, min(column.times_us[-1] for column in exchanged))
    inside = [at_us for at_us in exchanged[0].times_us if began_us < at_us < ended_us]
    every = ceil(len(inside) * len(totals) / _MOST_SPANS_OF_RANKS) or 1
    edges_us = [began_us, *inside[::every], ended_us]
    of_ranks = [_works(int(rank), of_rank, edges_us) for rank, of_rank in totals.items()]
    return _cost(list(zip(*of_ranks, strict=True)))


def _works(rank: int, totals: Mapping[str, Column], edges_us: Sequence[int]) -> Iterator[_Work]:
    """Yield what a rank did in each span between two edges."""
    start_us = totals[names.TRAIN_SECONDS].times_us[0]

    def spent(metric: str) -> list[float]:
        column = totals.get(metric, Column([start_us], [0.0]))
        if column.times_us[0] > start_us:  # a phase is not recorded before it is entered
            column = Column([start_us, *column.times_us], [0.0, *column.values])
        at_edges = [column.at(at_us) for at_us in edges_us]
        return [max(0.0, end - begin) for begin, end in pairwise(at_edges)]

    for trained, *phases in zip(*map(spent, (names.TRAIN_SECONDS, *_PHASES)), strict=True):
        own = max(0.0, trained - phases[0])
        data = min(phases[1], own)
        saving = min(phases[2], own - data)
        parts = zip(_PARTS, (own - data - saving, data, saving), strict=True)
        yield _Work(rank, own, dict(parts), phases[0])


def _cost(spans: Sequence[Sequence[_Work]]) -> Stragglers | None:
    """Simulate the spans as they were, and with typical ranks in place of all, or of one."""
    seconds = saved = 0.0
    saved_alone = {work.rank: 0.0 for work in spans[0]}
    late = {rank: dict.fromkeys(_PARTS, 0.0) for rank in saved_alone}
    for works in spans:
        ranked = sorted(works, key=lambda work: work.own)
        middle, last = (len(ranked) - 1) // 2, ranked[-1]
        seconds += last.own + min(work.communication for work in works)
        saved += last.own - ranked[middle].own
        saved_alone[last.rank] += last.own - ranked[-2].own
        for work in ranked[middle + 1 :]:
            for part in _PARTS:
                late[work.rank][part] += work.parts[part] - ranked[middle].parts[part]
    if not (isfinite(seconds) and saved < seconds):
        return None
    speed = seconds / (seconds - saved)
    ranks = [
        LateRank(rank, sum(parts.values()), parts, seconds / (seconds - saved_alone[rank]))
        for rank, parts in late.items()
    ]
    ranks.sort(key=lambda rank: -rank.seconds)
    return Stragglers(speed, tuple(ranks), _sentence(speed, ranks[0]))


def _sentence(speed: float, worst: LateRank) -> str:
    """Say how late the worst rank was, and what that cost all; nothing where it cost little."""
    if speed < _WORTH_A_WORD:
        return ""
    most = _PARTS[max(_PARTS, key=lambda part: worst.parts[part])]
    late = f"rank {worst.rank} was {worst.seconds:,.1f} s late, mostly in {most}"
    text = f"{late}; without that {worst.times_as_fast:.2f} times as fast"
    if speed > worst.times_as_fast * _WORTH_A_WORD:
        text += f", with no rank late {speed:.2f} times"
    return text
